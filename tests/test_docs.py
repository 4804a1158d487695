"""Generated pages say what the code says."""

import pytest

from extender.docs import ROOT, generated_pages, write_pages


@pytest.mark.parametrize("path", generated_pages())
def test_a_generated_page_is_up_to_date(path):
    page = (ROOT / path).read_text(encoding="utf-8")
    assert page == generated_pages()[path](), "run `python -m extender.docs`"


def test_all_pages_are_written(tmp_path):
    write_pages(tmp_path)
    assert all((tmp_path / path).is_file() for path in generated_pages())
