"""Builds the compiled twins of hot Python; without a C compiler the Python itself is used."""

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = (
    "record/_batch",
    "record/_columns",
    "record/_encode",
    "record/_scan",
    "record/_walk",
    "protocol/_produce",
    "runtime/_gather",
    "storage/_frames",
    "storage/_read_check",
    "storage/_regions",
)

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"penstock.{name.replace('/', '.')}",
                [f"src/penstock/{name}.pyx"],
                optional=True,
                extra_compile_args=["-O3"],
            )
            for name in MODULES
        ],
        language_level=3,
    )
)
