"""An editable install has its Python files in one folder, its extension and headers in another."""

import kernbridge
import pytest
from kernbridge._src.keys import package_digest

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", ["_core.abi3.so", "include/kernbridge/module.h"])
def test_generated_code_is_keyed_by_the_files_of_every_folder(name, tmp_path, monkeypatch):
    monkeypatch.setattr(kernbridge, "__path__", [*kernbridge.__path__, str(tmp_path)])
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    digests = set()
    for content in ("one", "two"):
        file.write_text(content)
        digests.add(package_digest.digest_of.__wrapped__())
    assert len(digests) == 2
