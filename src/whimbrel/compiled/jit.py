"""How the functions of the engine are compiled, by Numba.

A `kernel` is what Python calls. A `helper` is called by kernels only: its intermediate code is linked into its callers,
and with them, once, it is optimised and becomes machine code. Numba alone would do that for every helper by itself and
again for every caller, whose time to compile would be a third longer.

Compiled kernels are kept on disk by `compiled_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from whimbrel.compiled.cache import CompiledCache

Given = ParamSpec("Given")
Result = TypeVar("Result")


def kernel(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Compiled when it is first called, unless it is on disk. Runs without the GIL."""
    return _kept(function, nogil=True)


def quick_kernel(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A kernel that keeps the GIL: for what takes less time than to let go of it."""
    return _kept(function, nogil=False)


def helper(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Compiled into the kernels that call it; Python cannot call it."""
    return _helping(function, forceinline=False)


def inlined(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A helper whose code stands where it is called, so that a tuple of many arrays costs nothing to pass."""
    return _helping(function, forceinline=True)


def _helping(function: Callable[Given, Result], forceinline: bool) -> Callable[Given, Result]:
    made: Callable[Given, Result] = numba.njit(  # type: ignore[call-overload]
        no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_HelperCompiler, forceinline=forceinline
    )(function)
    return made


def _kept(function: Callable[Given, Result], nogil: bool) -> Callable[Given, Result]:
    made: Any = numba.njit(nogil=nogil)(function)
    if made is not function:  # as it is where compiling is switched off
        made._cache = CompiledCache(function)
    kept: Callable[Given, Result] = made
    return kept


class _Part(JITCodeLibrary):
    """The code of a helper: what is linked into its callers, and nothing that runs by itself."""

    def _optimize_final_module(self) -> None:
        """Its callers do."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> Any:
        """For `set_env`, which is all that is asked of it."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """There is no variable for it yet: `CompiledCache.save_overload` sets those of the whole kernel."""


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _LowerHelper(NativeLowering):
    _name = "whimbrel_lower_helper"

    def run_pass(self, state: Any) -> bool:
        name = state.func_id.func_qualname
        state.library = _Part(state.targetctx.codegen(), name)  # type: ignore[no-untyped-call]
        return bool(super().run_pass(state))  # type: ignore[no-untyped-call]


class _HelperCompiler(CompilerBase):
    """Numba's own, but for how code is made of what it has understood."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        passes.passes = [(_LowerHelper if one is NativeLowering else one, why) for one, why in passes.passes]
        passes.finalize()
        return [passes]
