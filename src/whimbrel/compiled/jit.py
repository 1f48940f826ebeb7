"""The decorators that compile functions.

Python calls a `kernel`. Only kernels call a `helper`: its intermediate code is linked into its callers, where it is
optimised and becomes machine code, once. Numba alone does that for every helper and again for every caller, which makes
compiling a third longer.

`cache` keeps compiled kernels on disk; `plain` decides whether Numba alone does all of this. While something is
compiled, the interpreter collects no cycles: compilers make millions of objects, and collecting took a tenth of the
time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from whimbrel.compiled.cache import CompiledCache, plain_cache
from whimbrel.compiled.plain import is_plain

Given = ParamSpec("Given")
Result = TypeVar("Result")


def kernel(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Compile a function when it is first called, unless it is on disk. It runs without the GIL."""
    return _kernel(function, nogil=True)


def quick_kernel(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A kernel that keeps the GIL: for work that takes less time than releasing it, or that needs it."""
    return _kernel(function, nogil=False)


def helper(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Compile a function into the kernels that call it; Python cannot call it."""
    return _helper(function, forceinline=False)


def inlined(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A helper whose machine code replaces every call, so that a tuple of many arrays is not copied.

    The arrays of the tuple are still reference-counted: a tenth of a microsecond for a dozen. In a loop over tokens or
    cells, pass only the arrays that are needed.
    """
    return _helper(function, forceinline=True)


def expanded(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A helper whose source replaces every call before types are known, so that constant arguments fold away."""
    made: Callable[Given, Result] = numba.njit(inline="always")(function)
    return made


def entry_for(function: Callable[Given, Result], *samples: object) -> Callable[Given, Result]:
    """Compile a kernel for arguments of the types of the samples, unless it is on disk, and return the compiled code.

    The compiled code skips Numba's look at the types of all arguments, which takes as long as passing them. Other types
    are refused.
    """
    compiled: Any = function
    if not hasattr(compiled, "overloads"):  # where compiling is switched off
        return function
    entry: Callable[Given, Result] = compiled.compile(tuple(numba.typeof(sample) for sample in samples))  # type: ignore[no-untyped-call]
    return entry


def _kernel(function: Callable[Given, Result], nogil: bool) -> Callable[Given, Result]:
    if is_plain():
        with plain_cache() as is_writable:
            plain: Callable[Given, Result] = numba.njit(nogil=nogil, cache=is_writable)(function)
        return plain
    made: Any = numba.njit(nogil=nogil)(function)
    if made is not function:  # it is the function itself where compiling is switched off
        made._cache = CompiledCache(function)
    kept: Callable[Given, Result] = made
    return kept


def _helper(function: Callable[Given, Result], forceinline: bool) -> Callable[Given, Result]:
    options: dict[str, Any] = {"forceinline": forceinline}
    if not is_plain():
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _HelperCompiler}
    made: Any = numba.njit(**options)(function)
    if not is_plain() and made is not function:
        made.get_call_template = _without_literals(made.get_call_template)
    kept: Callable[Given, Result] = made
    return kept


def _without_literals(template: Callable[..., Any]) -> Callable[..., Any]:
    """Let `f(0)` and `f(n)` call the same code. Numba would type `f` again for each constant that is passed to it."""

    def template_of_types(args: tuple[Any, ...], names: dict[str, Any]) -> Any:
        unliteral: Callable[[Any], Any] = types.unliteral
        return template(tuple(map(unliteral, args)), {name: unliteral(one) for name, one in names.items()})

    return template_of_types


class _PausedCollector(event.Listener):
    """Switches the collector of cycles off while something is compiled; Numba compiles one thing at a time."""

    def __init__(self) -> None:
        self._depth = 0
        self._was_on = False

    def on_start(self, _: event.Event) -> None:
        """A kernel, or a helper of one, is about to be compiled."""
        if self._depth == 0:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, _: event.Event) -> None:
        """It is compiled, or has failed."""
        self._depth -= 1
        if self._depth == 0 and self._was_on:
            gc.enable()


event.register("numba:compile", _PausedCollector())  # type: ignore[no-untyped-call]


class _HelperCode(JITCodeLibrary):
    """The code of a helper: it is linked into the callers and never runs by itself."""

    def _optimize_final_module(self) -> None:
        """The callers optimise it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> Any:
        """Numba asks it for `set_env` only."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """There is no variable for it yet: `CompiledCache.save_overload` sets those of the whole kernel."""


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _LowerHelper(NativeLowering):
    _name = "whimbrel_lower_helper"

    def run_pass(self, state: Any) -> bool:
        name = state.func_id.func_qualname
        state.library = _HelperCode(state.targetctx.codegen(), name)  # type: ignore[no-untyped-call]
        return bool(super().run_pass(state))  # type: ignore[no-untyped-call]


class _HelperCompiler(CompilerBase):
    """Numba's own pipeline, except that the last step makes `_HelperCode`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        passes.passes = [(_LowerHelper if one is NativeLowering else one, why) for one, why in passes.passes]
        passes.finalize()
        return [passes]
