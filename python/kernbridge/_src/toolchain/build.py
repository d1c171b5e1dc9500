"""Returns the library of a request: from the cache, or built now."""

from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain import library
from kernbridge._src.toolchain.library import Built, LibraryJob, Request


def build(request: Request) -> Built:
    """Return the library of a request, from the cache if it is there."""
    try:
        job = LibraryJob(request)
    except KernelToolchainError:
        if request.finish:
            request.finish()  # an error in the source is reported first
        raise
    cache = artefacts.usable()
    found = library.find(job, cache) if cache else None
    if found is None or request.build_directory is not None:
        from kernbridge._src.toolchain import make  # a library that is found needs nothing of it

        return make.deliver(job, cache, found)
    return found
