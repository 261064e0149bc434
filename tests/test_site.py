"""The check of the built site finds each fault on small pages, and passes a sound site."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers import ROOT, needs, script

CHECK = script("tools/docs/check.py")

HEAD = '<nav class="md-nav md-nav--primary"><nav><a href="{up}guide/">Guide</a></nav><a href="{up}gallery/">'


def write(site: Path, path: str, body: str) -> None:
    """A page of a site as the theme writes it: a navigation, then the page."""
    up = "../" * path.count("/")
    (site / path).parent.mkdir(parents=True, exist_ok=True)
    (site / path).write_text(f"{HEAD.format(up=up)}Gallery</a></nav>\n{body}\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A sound site with every kind of link and image that is allowed."""
    (tmp_path / "band.png").write_bytes(b"")
    write(tmp_path, "index.html", '<h1 id="top-of-all">Home</h1>\n<img src="band.png" alt="A band">')
    write(
        tmp_path,
        "guide/index.html",
        '<a href="../#top-of-all">up</a> <a href="#">top</a> <a href="https://pytorch.org/nowhere">out</a>\n'
        '<a href="../band.png">picture</a> <a id="old"></a><a href="#old">here</a>\n'
        '<img src="../band.png" alt="" role="presentation">',
    )
    write(tmp_path, "gallery/index.html", '<a href="shift/">An example</a>')
    write(tmp_path, "gallery/shift/index.html", "<p>An example.</p>")
    (tmp_path / "404.html").write_text('<a href="/guide/">Absolute, as it is served for any address</a>')
    return tmp_path


def test_a_sound_site_has_no_fault(site: Path) -> None:
    assert list(CHECK.site_faults(site)) == []


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ('<a href="../guid/">x</a>', "the link ../guid/ leads to guid, which does not exist"),
        ('<a href="../../outside/">x</a>', "leads to ../outside, which does not exist"),
        (f'<a href="{Path(__file__).as_posix()}">x</a>', "test_site.py, which does not exist"),
        ('<img src="../none.png" alt="A picture">', "the link ../none.png leads to none.png, which does not"),
        ('<a href="../#missing">x</a>', "the link ../#missing names an anchor that index.html lacks"),
        ('<a href="#missing">x</a>', "the link #missing names an anchor that guide/index.html lacks"),
        ('<img src="../band.png" alt="">', "the image ../band.png has no text: describe it"),
        ('<img src="../band.png" alt=" ">', "the image ../band.png has no text: describe it"),
        ('<img src="../band.png">', "the image ../band.png has no text: describe it"),
    ],
)
def test_a_fault_is_named_with_its_page_and_line(site: Path, element: str, message: str) -> None:
    write(site, "guide/index.html", f"<p>Some text.</p>\n{element}")
    (fault,) = CHECK.site_faults(site)
    assert fault.startswith("guide/index.html:3: ") and message in fault


def test_a_page_outside_the_navigation_is_a_fault(site: Path) -> None:
    write(site, "lost/index.html", "<p>Nobody finds this.</p>")
    write(site, "guide/index.html", '<a href="../lost/">A link in a page is not enough.</a>')
    (fault,) = CHECK.site_faults(site)
    assert fault.startswith("lost/index.html:1: the page is not in the navigation")


def test_a_redirect_is_outside_the_navigation_and_leads_somewhere(site: Path) -> None:
    hooks = script("tools/docs/hooks.py")
    (site / "old").mkdir()
    (site / "old" / "index.html").write_text(hooks.REDIRECT.format(target="../guide/#old"))
    assert list(CHECK.site_faults(site)) == []
    (site / "old" / "index.html").write_text(hooks.REDIRECT.format(target="../gone/"))
    assert {fault.partition(": ")[2][:19] for fault in CHECK.site_faults(site)} == {"the link ../gone/ l"}


def test_pages_that_moved_leave_a_redirect(tmp_path: Path) -> None:
    hooks = script("tools/docs/hooks.py")
    hooks.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))
    text = (tmp_path / "integrations" / "onnx" / "index.html").read_text()
    assert 'content="0; url=../../guides/deploy/#onnx"' in text
    assert 'href="../limits/"' in (tmp_path / "faq" / "index.html").read_text()
    with pytest.raises(FileExistsError, match="faq is a page, so it should not be a redirect"):
        hooks.on_post_build(SimpleNamespace(site_dir=str(tmp_path)))


def test_an_example_that_the_gallery_does_not_show_is_a_fault(site: Path) -> None:
    write(site, "gallery/index.html", "<p>No link.</p>")
    (fault,) = CHECK.site_faults(site)
    assert fault.startswith("gallery/shift/index.html:1: the page is not in the navigation")


WIDE = "x = " + "1" * 85
FITS = "x = " + "1" * 84


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (f"```python\n{FITS}\n```\n", []),
        (f"```python\n{FITS}\n{WIDE}\n```\n", [3]),
        (f"Text of any width: {WIDE}\n\n```sh\n{WIDE}\n```\n", [4]),
        (f"- item\n\n    ```py\n    {FITS}\n    {WIDE}\n    ```\n", [5]),
        (f"```python\nprint(x)\n```\n\n```text\n{WIDE}\n```\n", []),  # the output of the block above
        (f"```python\nprint(x)\n```\n\nA table:\n\n```text\n{WIDE}\n```\n", [8]),
        (f"````md\n```\n{WIDE}\n```\n````\n", [3]),
    ],
)
def test_wide_lines_of_a_page_are_found(page: str, lines: list[int]) -> None:
    assert [wide.line for wide in CHECK.wide_lines(page)] == lines


def test_wide_examples_of_docstrings_are_found_with_their_prompt() -> None:
    source = f'def f():\n    """A line.\n\n    >>> {FITS[:-4]}\n    >>> {FITS[:-3]}\n    {WIDE}\n    """\n'
    assert [wide.line for wide in CHECK.wide_examples(source)] == [5]


def test_the_faults_of_a_repository_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(f"```python\n{WIDE}\n```\n")
    (fault,) = CHECK.code_faults(tmp_path)
    assert fault.startswith("docs/page.md:2: code of more than 88 characters: break the line 'x = 111")


def test_the_code_of_this_repository_fits() -> None:
    assert list(CHECK.code_faults(ROOT)) == []


def test_the_script_fails_on_a_fault_and_on_a_folder_without_a_site(site: Path) -> None:
    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "tools/docs/check.py"), str(folder)]
        return subprocess.run(command, capture_output=True, text=True)

    assert run(site).returncode == 0
    write(site, "index.html", '<a href="gone/">x</a>')
    broken = run(site)
    assert broken.returncode == 1 and "index.html:2: the link gone/" in broken.stdout
    empty = run(site / "guide" / "none")
    assert empty.returncode == 1 and "Give the folder of a built site" in empty.stderr


HEADED = "Add.\n\nParameters\n----------\n"


@needs("griffe")
def test_a_docstring_is_prepared_for_the_site() -> None:
    prepared = script("tools/docs/docstrings.py").prepared
    plain = "Add two numbers.\n\n>>> 1 + 1\n2\n\nThat is all."
    assert prepared(plain) == "Add two numbers.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nThat is all."
    sections = (
        "Add.\n\nParameters\n----------\nx, y\n    Numbers.\nz\n    Another.\n\nExamples\n--------\n>>> 1\n1"
    )
    assert prepared(sections) == sections.replace(
        "x, y\n    Numbers.\n", "x\n    Numbers.\ny\n    Numbers.\n"
    )


@needs("griffe")
def test_names_that_share_the_last_line_of_a_docstring_are_separated() -> None:
    prepared = script("tools/docs/docstrings.py").prepared
    assert prepared(f"{HEADED}x, y\n    Numbers.") == f"{HEADED}x\n    Numbers.\ny\n    Numbers.\n"


@needs("griffe")
def test_the_described_names_of_a_docstring_are_found() -> None:
    listed = script("tools/docs/docstrings.py").listed
    text = (
        "Add.\n\nParameters\n----------\nx, y\n    Numbers.\n\nAttributes\n----------\nz : float\n    Sum.\n"
    )
    assert listed(text) == {"x", "y", "z"}
    assert listed("Add two numbers.") == set()


def test_aliases_in_signatures_have_an_entry() -> None:
    reference = script("tools/docs/reference.py")
    aliases, page = reference.aliases(), reference.pages()["types.md"]
    assert {"guardband.conformal.rank.Level", "guardband.conformal.base.Groups"} <= aliases.keys()
    assert all(f"::: {path}\n" in page for path in aliases)
    assert "guardband.lab.studies.base.Result" not in aliases  # it has an entry on the page of studies
