"""Moves imports, which Numba-CUDA does not support in kernels, out of a kernel's body.

A function is rewritten without its `import` statements. The names that they bind become globals of
the new function, which are resolved once, when it is created. Any thread may enter.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import sys
import tokenize
import types
from collections.abc import Iterator
from typing import Any, NoReturn

from kernbridge._src.base.errors import KernelCompilationError

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_CODE_FLAGS = 0x2AC  # *args, **kwargs, generators, coroutines; not nesting, __future__


def lift(function: types.FunctionType, label: str) -> types.FunctionType:
    """Return a function like this one, without the imports in its body.

    A function without imports is returned as it is. The new one has the same closure cells,
    defaults, names and line numbers, and a copy of the globals: when the original's globals are
    bound again later, it does not see that.
    """
    if not any(step.opname == "IMPORT_NAME" for step in dis.get_instructions(function)):
        return function
    return _Lift(function, label).result()


class _Lift:
    """The rewriting of one function."""

    def __init__(self, function: types.FunctionType, label: str) -> None:
        self.function, self.code, self.label = function, function.__code__, label

    def result(self) -> types.FunctionType:
        old, tree = self.function, self.definition()
        declared = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
        imports = _take_imports(tree)
        code = self.compile(tree)
        bound = code.co_varnames + code.co_cellvars + code.co_freevars if code else ()
        found: dict[str, Any] = {}
        for node in imports:
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                if code is None or name in declared or name in bound:
                    self.refuse(f"`{name}` is also bound in another way", node)
                value = self.resolve(node, alias)
                if found.setdefault(name, value) is not value:
                    self.refuse(f"`{name}` has two meanings", node)
        assert code is not None
        cells = dict(zip(self.code.co_freevars, old.__closure__ or (), strict=True))
        new = types.FunctionType(
            code.replace(co_qualname=self.code.co_qualname),
            {**old.__globals__, **found},
            old.__name__,
            old.__defaults__,
            tuple(cells[name] for name in code.co_freevars),
        )
        new.__kwdefaults__ = dict(old.__kwdefaults__) if old.__kwdefaults__ else None
        new.__qualname__, new.__module__ = old.__qualname__, old.__module__
        new.__doc__, new.__annotations__ = old.__doc__, old.__annotations__
        new.__dict__.update(old.__dict__)
        return new

    def definition(self) -> ast.FunctionDef:
        """The syntax tree of the function, with the line numbers of its file."""
        try:
            lines, first = inspect.getsourcelines(self.code)
        except (OSError, TypeError, IndexError, SyntaxError, tokenize.TokenError) as e:
            self.refuse("the source of the function is not available", cause=e)
        # Not dedented: that would change strings, and fail at comments in the first column.
        indented = lines[0][:1].isspace()
        source = "".join(["if True:\n", *lines] if indented else lines)
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError) as e:
            self.refuse("the source of the function cannot be read again", cause=e)
        node: ast.AST | None = body[0] if body else None
        if indented and isinstance(node, ast.If):
            node = node.body[0]
        if not isinstance(node, ast.FunctionDef) or not self.is_current():
            self.refuse(
                "the source in that file is not the one that this function was compiled from"
            )
        ast.increment_lineno(node, first - 1 - indented)
        _strip(node)
        return node

    def is_current(self) -> bool:
        """Whether the file, compiled again as a whole, contains the same function."""
        source = "".join(inspect.findsource(self.code)[0])
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as notebooks have it
        try:
            module = compile(source, self.code.co_filename, "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return any(_bare(code) == _bare(self.code) for code in _codes(module))

    def compile(self, tree: ast.FunctionDef) -> types.CodeType | None:
        """The code of the function, as one with the same free variables; it is not run."""
        binding = [f"{name} = None" for name in self.code.co_freevars]
        outer = ast.parse("def factory():\n    pass\n    " + "; ".join(binding))
        factory = outer.body[0]
        assert isinstance(factory, ast.FunctionDef)
        factory.body.append(tree)
        try:
            code: Any = compile(outer, self.code.co_filename, "exec", dont_inherit=True)
        except SyntaxError:  # a nested function declares an import `nonlocal`
            return None
        for name in ("factory", tree.name):
            inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
            (code,) = (c for c in inner if c.co_name == name)
        assert isinstance(code, types.CodeType)
        return code

    def resolve(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> Any:
        """What an import binds."""
        namespace = self.function.__globals__
        try:
            if isinstance(node, ast.Import):
                module = importlib.import_module(alias.name)
                return module if alias.asname else sys.modules[alias.name.partition(".")[0]]
            origin = __import__(node.module or "", namespace, None, [alias.name], node.level)
            if hasattr(origin, alias.name):
                return getattr(origin, alias.name)
            raise ImportError(f"cannot import name {alias.name!r} from {origin.__name__!r}")
        except Exception as e:  # a module may raise anything
            self.refuse(f"`{ast.unparse(node)}` fails: {type(e).__name__}: {e}", node, cause=e)

    def refuse(
        self, why: str, node: ast.stmt | None = None, cause: Exception | None = None
    ) -> NoReturn:
        line = node.lineno if node is not None else self.code.co_firstlineno
        names = (s.argval for s in dis.get_instructions(self.code) if s.opname == "IMPORT_NAME")
        statement = ast.unparse(node) if node is not None else f"import {next(names)}"
        raise KernelCompilationError(
            f"{self.label}: {self.code.co_filename}:{line}: a kernel cannot import modules, and "
            f"this import cannot be moved out of the kernel: {why}. Move `{statement}` to the top "
            "of the module [KB4004]"
        ) from cause


def _take_imports(tree: ast.FunctionDef) -> list[ast.Import | ast.ImportFrom]:
    """Put `pass` where a function has imports, which are returned in their order.

    Those of functions and classes within it stay.
    """
    imports = []

    class Taking(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if isinstance(node, _NESTED):
                return node
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports.append(node)
                return ast.copy_location(ast.Pass(), node)
            return self.generic_visit(node)

    Taking().generic_visit(tree)
    return imports


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and all within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _strip(node: ast.FunctionDef) -> None:
    """Drop what belongs to the definition and not to the code, but not the first line's number."""
    anchor = node.decorator_list[0] if node.decorator_list else node
    nothing = ast.copy_location(ast.Constant(None), anchor)
    node.decorator_list = [nothing for _ in node.decorator_list[:1]]
    arguments = node.args
    arguments.defaults = [nothing] * len(arguments.defaults)
    arguments.kw_defaults = [d and nothing for d in arguments.kw_defaults]
    everyone = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in (*everyone, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    node.returns = None
    if hasattr(node, "type_params"):
        node.type_params = []


def _bare(code: types.CodeType) -> types.CodeType:
    """The code without what does not count, in a form that `==` compares exactly."""

    def bare(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return _bare(constant)
        # By repr: 0.0 == -0.0, 1 == True, nan != nan. The order in a set is no meaning.
        return constant if isinstance(constant, frozenset) else repr(constant)

    return code.replace(
        co_flags=code.co_flags & _CODE_FLAGS,
        co_consts=tuple(map(bare, code.co_consts)),
        co_linetable=b"",
    )
