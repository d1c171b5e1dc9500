"""The plugin that JAX calls when it starts its backends. It registers kernbridge's targets.

A process that loads an exported program therefore need not import kernbridge. This module is not
part of the package, so that JAX starts even if kernbridge cannot be imported.
"""

import logging


def initialize() -> None:
    """Import kernbridge and its extensions, which register their targets with JAX.

    Many processes that start JAX do not use kernbridge, so a failure is only logged here. Those
    that do use it see the error when they import it.
    """
    try:
        from kernbridge._src.base import extensions

        extensions.load_installed()
    except Exception:
        message = "kernbridge cannot be imported; programs that contain its calls cannot be loaded"
        logging.getLogger(__name__).info(message, exc_info=True)
