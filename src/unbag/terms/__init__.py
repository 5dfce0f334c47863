"""Parts of a score f(x): columns of numbers, categories, words and a kernel, each with a variance."""

from unbag.terms.base import Term
from unbag.terms.categories import CategoryTerm
from unbag.terms.design import Design
from unbag.terms.encoding import EncodedRows, TableEncoder
from unbag.terms.kernel import KernelTerm
from unbag.terms.numbers import NumberTerm
from unbag.terms.sparse import SparseTerm

__all__ = [
    "CategoryTerm",
    "Design",
    "EncodedRows",
    "KernelTerm",
    "NumberTerm",
    "SparseTerm",
    "TableEncoder",
    "Term",
]
