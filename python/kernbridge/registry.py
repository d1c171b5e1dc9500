"""The operations, by name and tags, and the targets of modules that this process has registered.

Examples
--------
>>> import kernbridge
>>> op = kernbridge.XLACustomKernel("doc_registry")
>>> kernbridge.registry.get_registry()["doc_registry"] is op
True
"""

from kernbridge._src.custom.kernel import get_all_primitive_names as get_all_primitive_names
from kernbridge._src.custom.kernel import get_primitives_by_tags as get_primitives_by_tags
from kernbridge._src.custom.kernel import get_registry as get_registry
from kernbridge._src.source.module import list_registered_targets as list_registered_targets
from kernbridge._src.source.module import register_ffi_target as register_ffi_target
