"""The operations, by name and tags, and the targets of modules that this process has registered.

Examples
--------
>>> import kernbridge
>>> op = kernbridge.XLACustomKernel("doc_registry")
>>> kernbridge.registry.get_registry()["doc_registry"] is op
True
"""

from kernbridge._src.custom.kernel import (
    get_all_primitive_names,
    get_primitives_by_tags,
    get_registry,
)
from kernbridge._src.source.module import list_registered_targets, register_ffi_target

__all__ = [
    "get_all_primitive_names",
    "get_primitives_by_tags",
    "get_registry",
    "list_registered_targets",
    "register_ffi_target",
]
