"""Builds the explorer's engine: C, compiled once for each of some numbers of words that a state takes.

All else is declared in pyproject.toml. The engine is a plain shared library, loaded by ctypes: it needs no headers of
Python and serves every version. Where it cannot be compiled, the package is installed without it.
"""

import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PACKAGE = "leasehold.checker.explore.packed"
SOURCE = Path("src", *PACKAGE.split("."), "engine")
WORDS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64)  # a state that takes another number is given the next one
VARIANTS = {  # by suffix: where it is compiled
    "": "1",  # for every processor
    "_pext": "defined(__x86_64__)",  # with instructions that most of these have
}
TEXT = """#if {condition}
#define W {words}
#define PEXT {pext}
#define SUFFIX _{words}{variant}
#include "engine.h"
#else
typedef int none;
#endif
"""


def source_digest() -> str:
    """The digest that the loader asks a library for (library.py, which is loaded alone as it needs no other module)."""
    spec = importlib.util.spec_from_file_location("library", SOURCE.with_name("library.py"))
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    return library.source_digest(SOURCE)


class BuildEngine(build_ext):
    def finalize_options(self) -> None:
        super().finalize_options()
        if os.name == "nt" and self.compiler is None:
            self.compiler = "mingw32"  # MinGW-w64 has POSIX threads, which the engine needs

    def build_extension(self, ext: Extension) -> None:
        folder = Path(self.build_temp)
        folder.mkdir(parents=True, exist_ok=True)
        for words in WORDS:
            for variant, condition in VARIANTS.items():
                source = folder / f"engine_{words}{variant}.c"
                about = {"words": words, "variant": variant, "condition": condition, "pext": int(variant != "")}
                source.write_text(TEXT.format(**about))
                ext.sources.append(str(source))
        ext.extra_compile_args = ["-O2", "-g0", "-std=gnu11", "-fvisibility=hidden", "-pthread"]
        ext.extra_link_args = ["-pthread"]
        if self.compiler.compiler_type == "mingw32":
            ext.extra_link_args += ["-static"]
            self.compiler.dll_libraries = []  # Python's C library: this one uses that of MinGW-w64
        compile_all = self.compiler.compile

        def compile_each(sources: list[str], **options: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = pool.map(lambda source: compile_all([source], **options), sources)
                return [name for names in made for name in names]

        self.compiler.compile = compile_each
        super().build_extension(ext)

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + (".dll" if os.name == "nt" else ".so")

    def get_libraries(self, ext: Extension) -> list[str]:
        return []  # it calls nothing of Python

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []  # no module that Python imports


class PlatformWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[
        Extension(
            f"{PACKAGE}._engine",
            sources=[str(SOURCE / f"{name}.c") for name in ("platform", "graph", "ways")],
            depends=sorted(map(str, SOURCE.glob("*.h"))),
            include_dirs=[str(SOURCE)],
            define_macros=[("ENGINE_SOURCE", f'"{source_digest()}"')],
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildEngine, "bdist_wheel": PlatformWheel},
)
