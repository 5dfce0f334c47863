"""Benchmarks of unbag: suites of bag sets, published methods, studies and their rows."""
