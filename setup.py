"""Builds the compiled half of the record room; without a C compiler its Python twins are used."""

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = ("_columns", "_encode", "_scan")

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"penstock.record.{name}",
                [f"src/penstock/record/{name}.pyx"],
                optional=True,
                extra_compile_args=["-O3"],
            )
            for name in MODULES
        ],
        language_level=3,
    )
)
