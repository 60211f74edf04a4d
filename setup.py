"""Builds the compiled record decoder; without a C compiler the pure Python twin is used."""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [
            Extension(
                "penstock.record._columns",
                ["src/penstock/record/_columns.pyx"],
                optional=True,
                extra_compile_args=["-O3"],
            )
        ],
        language_level=3,
    )
)
