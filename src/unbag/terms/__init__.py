"""Parts of a score f(x): columns of numbers, categories, words and a kernel, each with a variance."""
