import io
import pickle
import random
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guardband import tables
from guardband.base import files, separate
from guardband.tables import Table, TableError, read, write
from wings import torch

NUMBERS = {"x": [0.1, -0.0, 5e-324, 1 / 3], "file": [1e308, -1.5, 2**53, np.pi], "row": [1, 2, 3, 4]}
TABLE = Table({**NUMBERS, "sensor": ["a,b", 'ü\n"q"', " =1+1", "-7 µm"], "u": [1.0, 2.0, 3.0, 4.0]})
NEEDS = {
    "csv": [],
    "npz": [],
    "parquet": ["pyarrow"],
    "nc": ["xarray"],
    "nc4": ["xarray", "h5netcdf"],
    "vtk": ["pyvista"],
    "vtu": ["pyvista"],
}


def needs(kind: str) -> None:
    for module in NEEDS[kind]:
        pytest.importorskip(module)


def same(a: Table, b: Table) -> bool:
    return a.names == b.names and all(a.column(n).tobytes() == b.column(n).tobytes() for n in a.names)


def text(tmp_path: Path, content: str | bytes) -> Path:
    return files.write_bytes(
        tmp_path / "t.csv", content if isinstance(content, bytes) else content.encode("utf-8")
    )


def npz(tmp_path: Path, **arrays: Any) -> Path:
    np.savez(tmp_path / "t.npz", **arrays)
    return tmp_path / "t.npz"


def test_a_table_is_its_columns_in_order() -> None:
    x = np.array([1.0, 2.0])
    table = Table({"x": x, "y": torch.tensor([3, 4]), "sensor": ["a", "b"]})
    x[0] = 9
    assert table.names == ("x", "y", "sensor") and len(table) == 2
    assert table.matrix(["y", "x"]).tolist() == [[3, 1], [4, 2]] and table.matrix(["y"]).dtype == np.float64
    assert table.matrix("x").shape == (2, 1) and table.matrix([]).shape == (2, 0)
    assert table.with_columns(x=[5, 6], u=[7, 8]).names == ("x", "y", "sensor", "u")
    assert table.column("x").tolist() == [1, 2] and not table.column("x").flags.writeable
    assert same(pickle.loads(pickle.dumps(table)), table)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "at least one column"),
        ({"x": []}, "not empty"),
        ({"x": [1], "y": [1, 2]}, "equally long"),
        ({"": [1]}, "Column 1 should have a name, got ''"),
        ({" x": [1]}, "should have a name, got ' x'"),
        ({"a\0b": [1]}, "should have a name"),
        ({"x": [[1, 2]]}, r"`x` should be one-dimensional, got shape \(1, 2\)"),
        ({"x": [1j]}, "`x` should hold real numbers or text, got dtype complex"),
        ({"x": [1.0, None]}, "got dtype object"),
        ({"x": ["a", 1.0]}, "`x` should be all text or all numbers, but row 2 is 1.0"),
        ({"x": ["a", " "]}, "`x` should be complete, but row 2 is blank"),
        ({"x": ["a\0b"]}, "readable text, but row 1"),
        ({"x": ["\ud800"]}, "readable text, but row 1"),
        ({"x": np.array([2**53 + 1])}, r"integers up to 2\^53"),
        ({"x": np.ma.masked_equal([1, 2], 2)}, "masked"),
    ],
)
def test_a_table_refuses_columns_that_are_none(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        Table(columns)


def test_a_table_says_which_columns_and_cells_are_not_there() -> None:
    with pytest.raises(TableError, match="Unknown column `y`; the columns are x, file"):
        TABLE.column("y")
    with pytest.raises(TableError, match="`u` should hold numbers, but row 2 is 'n/a'"):
        Table({"u": ["1.5", "n/a"]}).matrix(["u"])


def test_no_cell_of_text_may_widen_all_others_beyond_memory(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="`x` should be short text, got 100000 characters"):
        read(text(tmp_path, "x\n" + "a" * 10**5 + "\n" + "b\n" * 1000))


@pytest.mark.slow("parquet", "nc")
@pytest.mark.parametrize("kind", ["csv", "npz", "parquet", "nc"])
def test_a_round_trip_changes_no_bit(tmp_path: Path, kind: str) -> None:
    needs(kind)
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 2**63, size=1000).view(np.float64)
    wild = Table({"string5": bits[np.isfinite(bits)]})
    wild = wild.with_columns(label=[f"s{i}" for i in range(len(wild))], v=-wild.column("string5"))
    greek = Table({"θ": [1.0], "ü": ["φ"], "e\u0301": [2.0]})
    for table in (TABLE, wild, greek, Table({"allow_pickle": [1.0]}), Table({"a": [1.0], "a.npy": [2.0]})):
        path = write(tmp_path / f"t.{kind}", table)
        assert same(read(path), table)
        first = path.read_bytes()
        assert write(tmp_path / f"again.{kind.upper()}", table).read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([f"again.{kind.upper()}", f"t.{kind}"])


@pytest.mark.parametrize("kind", ["vtk", "vtu"])
def test_paraview_gets_points_and_their_data(tmp_path: Path, kind: str) -> None:
    needs(kind)
    import pyvista

    table = Table(NUMBERS)
    mesh = pyvista.read(write(tmp_path / f"t.{kind}", table, points=["x", "row"]))
    assert np.array_equal(mesh.points, np.column_stack([table.matrix(["x", "row"]), np.zeros(4)]))
    assert mesh.cells_dict[pyvista.CellType.VERTEX].ravel().tolist() == [0, 1, 2, 3]
    assert list(mesh.point_data.keys()) == ["file"]
    assert np.array_equal(np.asarray(mesh.point_data["file"]).ravel(), table.column("file"))
    one = pyvista.read(write(tmp_path / f"one.{kind}", table, points="x"))  # type: ignore[arg-type]
    assert list(one.point_data.keys()) == ["file", "row"]
    spaced = write(tmp_path / f"spaced.{kind}", Table({"x": [1, 2], "speed in µm/s": [3, 4]}), points=["x"])
    assert pyvista.read(spaced).point_data["speed in µm/s"].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("name", "table", "points", "message"),
    [
        ("t.txt", TABLE, [], "should end in one of .csv, .parquet, .nc, .npz, .vtk, .vtu, got '.txt'"),
        ("t.csv", TABLE, ["x"], "`points` should name one to three"),
        ("t.vtu", TABLE, [], "`points` should name one to three"),
        ("t.vtu", TABLE, ["x", "u", "row", "file"], "one to three"),
        ("t.vtu", TABLE, ["x"], "t.vtu: Column `sensor` should hold numbers, but row 1"),
        ("t.nc", Table({"du/dx": [1]}), [], "t.nc: Column names in a .nc should not contain '/'"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(
    tmp_path: Path, name: str, table: Table, points: list[str], message: str
) -> None:
    needs(name[2:] if name[2:] in NEEDS else "csv")
    with pytest.raises(TableError, match=message):
        write(tmp_path / name, table, points=points)
    assert not list(tmp_path.iterdir())


def test_an_infinite_band_can_be_written_but_data_are_finite(tmp_path: Path) -> None:
    path = write(tmp_path / "band.csv", Table({"lower": [0.0, -np.inf], "upper": [1.0, np.inf]}))
    assert path.read_text() == "lower,upper\n0.0,1.0\n-inf,inf\n"
    with pytest.raises(TableError, match=r"band.csv: Column `lower` should be finite, but row 2 is -inf"):
        read(path)


def test_csv_of_other_people_is_understood(tmp_path: Path) -> None:
    table = read(text(tmp_path, '\ufeffx, y,sensor,part\r\n1, 2.5e3,"a ""b""",1_2\r\n-3,+.5,c,1_3\r\n'))
    assert table.names == ("x", "y", "sensor", "part")
    assert table.matrix(["x", "y"]).tolist() == [[1, 2500], [-3, 0.5]]
    assert table.column("sensor").tolist() == ['a "b"', "c"]
    assert table.column("part").tolist() == ["1_2", "1_3"]


NUMBERS_OF_TWO = {"x": [0.5, -1.25], "u": [1250.0, 3.0]}


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("x;u\n0,5;1,25e3\n-1,25;3\n", NUMBERS_OF_TWO),
        ("x;u\n0.5;1250\n-1.25;3.\n", NUMBERS_OF_TWO),
        ("x\tu\n0,5\t1250\n-1,25\t3\n", NUMBERS_OF_TWO),
        ("\ufeffx;u\r\n,5;1250\r\n-1,25;+3,0\r\n", NUMBERS_OF_TWO),
        ('"x";"u"\n"0,5";"1250"\n"-1,25";" 3,0 "\n', NUMBERS_OF_TWO),
        ("x;u\r0,5;1250\r-1,25;3\r", NUMBERS_OF_TWO),
        ("x;u, m\n0,5;1,25\n-1,25;3\n", {"x": [0.5, -1.25], "u, m": [1.25, 3.0]}),
        ("x;u, m\n1;2\n3;4\n", {"x": [1.0, 3.0], "u, m": [2.0, 4.0]}),
        ("x,u;v\n1,2\n3,4\n", {"x": [1.0, 3.0], "u;v": [2.0, 4.0]}),
        ('x,"u;v"\n1,2;3\n3,4;5\n', {"x": [1.0, 3.0], "u;v": ["2;3", "4;5"]}),
        ('"u;v",x\n2;3,1\n4;5,3\n', {"u;v": ["2;3", "4;5"], "x": [1.0, 3.0]}),
        ('"a,b";"c;d"\n"1,5";"e;f,g"\n2;h\n', {"a,b": [1.5, 2.0], "c;d": ["e;f,g", "h"]}),
        ('"a;b","c,d"\n"1;5","e;f,g"\n2,h\n', {"a;b": ["1;5", "2"], "c,d": ["e;f,g", "h"]}),
        ('"a ""b;c""",x\n1;1,2\n', {'a "b;c"': ["1;1"], "x": [2.0]}),
        ('"two\nlines; really",x\n1;1,2\n', {"two\nlines; really": ["1;1"], "x": [2.0]}),
        ('5" pipe;x\n1,5;2\n', {'5" pipe': [1.5], "x": [2.0]}),
        ("u\n1\n2\n", {"u": [1.0, 2.0]}),
        ('"u;v"\n1\n2\n', {"u;v": [1.0, 2.0]}),
        ('"u,v"\n1\n2\n', {"u,v": [1.0, 2.0]}),
        ("sensor;x\n1,2,3;0,5\n1.2.3;1\n", {"sensor": ["1,2,3", "1.2.3"], "x": [0.5, 1.0]}),
        ("sensor;x\na,1;0,5\n1,2;1\n", {"sensor": ["a,1", "1,2"], "x": [0.5, 1.0]}),
        ("sensor;x\nrev 1.2;0,5\n1.3;1\n", {"sensor": ["rev 1.2", "1.3"], "x": [0.5, 1.0]}),
        ('x,u\n"0,5",1\n"1,5",2\n', {"x": ["0,5", "1,5"], "u": [1.0, 2.0]}),
        ("größe;µm\n1,5;2\n", {"größe": [1.5], "µm": [2.0]}),
    ],
)
def test_columns_are_separated_by_commas_semicolons_or_tabs(
    tmp_path: Path, content: str, columns: dict[str, Any]
) -> None:
    table = read(text(tmp_path, content))
    assert {name: table.column(name).tolist() for name in table.names} == columns
    assert same(read(write(tmp_path / "again.csv", table)), table)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "x;u\n0,5;1.5\n",
            r"one decimal mark throughout a file, got '0,5' in row 1 of `x` and '1.5' in row 1",
        ),
        ("x;u\n1;0,5\n2;0.5\n", r"got '0,5' in row 1 of `u` and '0.5' in row 2 of `u`. Write all with"),
        ("x;u\n1.5;0,5\n2;0,6\n", r"got '0,5' in row 1 of `u` and '1.5' in row 1 of `x`"),
        ("x;u\n999,5;1\n1.234,5;1\n", r"`x` should hold numbers without thousands separators.*'1.234,5'"),
        ("x;u\n999.5;1\n1,234.5;1\n", r"`x` should hold numbers without thousands separators.*'1,234.5'"),
        (
            "x;u, m\n0,5;1250\n-1,25;3\n",
            "the rows do not show which it is. Quote names that contain a deli",
        ),
        ("a,b;c\n1,2;3\n", "the header has commas and semicolons, and the rows do not show which it is"),
        ("a;b\tc\n1;2\t3\n", "the header has semicolons and tabs"),
        ("a,b;c\n1\n", "the rows do not show"),
        ('a,b;c\n"1,2\n', "the rows do not show"),
        ("0,5;1,25\n0,7;1,5\n", r"should be a header of names, got \['0,5', '1,25'\]"),
        ("0,5;1\n", r"should be a header of names, got \['0,5', '1'\]"),
        ("1;2\n3;4\n", r"should be a header of names, got \['1', '2'\]"),
        ("x\n0,5\n1,25\n", r"Row 1 \(line 2\) should have 1 cells like the header, got 2"),
        ("x;u\n1;2\n\n3;4\n", r"Row 2 \(line 3\) should have 2 cells like the header, got 0"),
        ("x;u\r\n1;2\r\n\r\n", r"Row 2 \(line 3\) should have 2 cells like the header, got 0"),
        ("x;u\n1;2;3\n", r"Row 1 \(line 2\) should have 2 cells like the header, got 3"),
        ("x;u\n0,5;\n", "`u` should be complete, but row 1 is blank"),
        ("x;u;\n1;2;\n", "Column 3 should have a name, got ''"),
        ("x;x\n1;2\n", "`x` occurs twice"),
        ("x;u\n1;1e999\n", "`u` should be finite, but row 1 is inf"),
        ("x;u\n1;1,5e999\n", "`u` should be finite, but row 1 is inf"),
        ('x;u\n"0,5"1;2\n', "file is damaged or has another format.*';' expected"),
        ('x;"u\n1;2\n', "file is damaged or has another format.*unexpected end"),
        ("größe;u\n1,5;2\n".encode("latin-1"), "should be UTF-8, but byte 2 is not"),
        ("x\tu\n1\t2\n".encode("utf-16"), "should be UTF-8, but byte 0 is not"),
    ],
)
def test_marks_that_could_mean_two_things_are_refused(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(TableError, match=message):
        read(text(tmp_path, content))


@pytest.mark.parametrize("header", ['"' * 10**6, ',"' * 10**6, '""' * 10**6, ";," * 10**6, '"a;' * 10**6])
def test_a_header_of_marks_alone_is_refused_in_time_that_grows_like_its_length(
    tmp_path: Path, header: str
) -> None:
    start = time.process_time()
    with pytest.raises(TableError):
        read(text(tmp_path, f"{header}\n1;2\n"))
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"t.csv: The first line should be a header of names, got \[\]"),
        ("1,2\n3,4\n", r"should be a header of names, got \['1', '2'\]"),
        ("x,y\n", "not empty"),
        ("x,x\n1,2\n", "`x` occurs twice"),
        ("x,\n1,2\n", "Column 2 should have a name, got ''"),
        ("x,y\n1,2\n3\n", r"Row 2 \(line 3\) should have 2 cells like the header, got 1"),
        ("x,y\n1,2,3\n", r"Row 1 \(line 2\) should have 2 cells like the header, got 3"),
        ("x,y\n1,2\n\n", r"Row 2 \(line 3\) should have 2 cells like the header, got 0"),
        ("x,y\n1,2\n1, \n", "t.csv: Column `y` should be complete, but row 2 is blank"),
        ("x,y\n1,2\nNaN,2\n", "Column `x` should be finite, but row 2 is nan"),
        ("x,y\n1,2\n1,-Infinity\n", "Column `y` should be finite, but row 2 is -inf"),
        ("x\n1e999\n", "Column `x` should be finite, but row 1 is inf"),
        (b"x\n\xff\n", "should be UTF-8, but byte 2 is not. Save it as UTF-8"),
        ("x\na\0\n", "readable text, but row 1"),
        ('x\n"a\n', "file is damaged or has another format.*unexpected end of data"),
        (",".join(f"c{j}" for j in range(10**4 + 1)) + "\n", "at least|at most 10000 columns|not empty"),
    ],
)
def test_csv_is_refused_where_it_is_wrong(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read(text(tmp_path, content))


def test_sizes_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text(tmp_path, "x,y\n1,2\n3,4\n")
    for module in ("table", "text"):
        monkeypatch.setattr(f"guardband.tables.{module}.CELLS", 3)
    with pytest.raises(TableError, match=r"at most 10000 columns and 3 cells, got 2 x 2"):
        read(path)
    monkeypatch.setattr("guardband.tables.table.WIDEST", 1)
    with pytest.raises(TableError, match=r"at most 1 columns"):
        read(path)
    with pytest.raises(TableError, match=r"at most 1 columns"):
        read(npz(tmp_path, a=np.zeros((1, 2))))
    monkeypatch.setattr(tables, "TABLE", 10)
    with pytest.raises(TableError, match="has 12 bytes, but the limit is 10"):
        read(path)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    for name in ("none.csv", "none.npz"):
        with pytest.raises(TableError, match=f"{name}: There is no file at this path"):
            read(tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="There is no file at this path"):
        read(tmp_path / "folder.csv")
    with pytest.raises(TableError, match=r"should end in one of .csv, .parquet, .nc, .npz, got '.vtu'"):
        read(tmp_path / "t.vtu")


def test_npz_splits_matrices_and_decodes_bytes(tmp_path: Path) -> None:
    table = read(npz(tmp_path, u=np.arange(6).reshape(3, 2), s=np.array([b"a", b"b", b"c"])))
    assert table.names == ("u0", "u1", "s")
    assert table.column("u1").tolist() == [1, 3, 5] and table.column("s").tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"u": np.zeros((2, 2, 2))}, r"`u` should have shape \(n,\) or \(n, k\), got \(2, 2, 2\)"),
        ({"u": np.float64(1)}, r"`u` should have shape \(n,\) or \(n, k\), got \(\)"),
        ({"u": np.zeros((2, 1)), "u0": np.zeros(2)}, "`u0` occurs twice"),
        ({"u": np.zeros(2), "v": np.zeros(3)}, "equally long"),
        ({"u": np.array([1.0, np.nan])}, "`u` should be finite, but row 2 is nan"),
        ({"u": np.array(["2020-01-01"], dtype="M8[D]")}, "got dtype datetime64"),
        ({"u": np.array([{}], dtype=object)}, "file is damaged or has another format.*allow_pickle"),
        ({}, "at least one column"),
    ],
)
def test_npz_is_refused_where_it_is_wrong(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        read(npz(tmp_path, **arrays))


def test_npz_that_claims_or_unpacks_to_more_than_memory_is_refused(tmp_path: Path) -> None:
    for header, message in [
        ("'<f8', 'shape': (10**12,)", "at most"),
        ("'<U0', 'shape': (999999999,)", "at most"),
    ]:
        line = f"{{'descr': {header.replace('10**12', str(10**12))}, 'fortran_order': False}}"
        npy = b"\x93NUMPY\x01\x00" + (len(line) + 1).to_bytes(2, "little") + line.encode() + b"\n"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("u.npy", npy)
        with pytest.raises(TableError, match=message):
            read(files.write_bytes(tmp_path / "t.npz", buffer.getvalue()))


@pytest.mark.slow
def test_parquet_is_refused_where_it_is_wrong(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for column, message in [
        (arrow.array([1.0, None]), "`u` should be complete, but row 2 is null"),
        (arrow.array(["a", None]), "`u` should be complete, but row 2 is null"),
        (arrow.array([[1], [2, 3]]), "t.parquet"),
        (arrow.array([1.0, float("nan")]), "`u` should be finite, but row 2 is nan"),
    ]:
        parquet.write_table(arrow.table({"u": column}), tmp_path / "t.parquet")
        with pytest.raises(TableError, match=message):
            read(tmp_path / "t.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
def test_a_grid_becomes_columns_in_c_order(tmp_path: Path, engine: Any) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip(engine)
    u = np.arange(6.0).reshape(2, 3)
    data = {"u": (("t", "x"), u)}
    coords = {"t": ("t", [10, 20], {"units": "days since 2000-01-01"}), "x": [0.0, 0.5, 1.0]}
    xarray.Dataset(data, coords=coords).to_netcdf(tmp_path / "t.nc", engine=engine)
    table = read(tmp_path / "t.nc")
    assert table.names == ("t", "x", "u")
    assert table.column("t").tolist() == [10, 10, 10, 20, 20, 20]
    assert table.column("x").tolist() == [0, 0.5, 1] * 2
    assert table.column("u").tolist() == list(range(6))
    turned = {**data, "v": (("x", "t"), u.T.copy())}
    xarray.Dataset(turned, coords=coords).to_netcdf(tmp_path / "v.nc", engine=engine)
    table = read(tmp_path / "v.nc")
    assert table.column("u").tolist() == table.column("v").tolist()
    assert {tuple(row) for row in table.matrix(["t", "x", "u"])} == {
        (t, x, u[i, j]) for i, t in enumerate([10, 20]) for j, x in enumerate([0, 0.5, 1])
    }
    xarray.Dataset({**data, "w": ("t", [1.0, 2.0])}).to_netcdf(tmp_path / "w.nc", engine=engine)
    with pytest.raises(TableError, match=r"`w` should have dimensions \('t', 'x'\), got \('t',\)"):
        read(tmp_path / "w.nc")
    xarray.Dataset({"u": (("t", "x"), u / 0.5 + np.array([0, 0, np.nan]))}).to_netcdf(tmp_path / "n.nc")
    with pytest.raises(TableError, match="`u` should be finite, but row 3 is nan"):
        read(tmp_path / "n.nc")


@pytest.mark.parametrize(("name", "module"), [("t.parquet", "pyarrow"), ("t.nc", "xarray")])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text("raise ImportError('as if it were not there')")
    for known in [known for known in sys.modules if known.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.syspath_prepend(tmp_path)  # files are read in a process with the same path
    (tmp_path / name).write_bytes(b"CDF")
    for call in (lambda: read(tmp_path / name), lambda: write(tmp_path / name, TABLE)):
        with pytest.raises(ImportError, match=f"needs {module}: pip install"):
            call()


def flip(data: bytearray, dice: random.Random) -> None:
    for _ in range(dice.randint(1, 8) if data else 0):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def cut(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data) + 1) :]


def insert(data: bytearray, dice: random.Random) -> None:
    place = dice.randrange(len(data) + 1)
    data[place:place] = dice.choice([dice.randbytes(dice.randint(1, 16)), b'"', b",", b"\n", b"nan", b"\0"])


def shuffle(data: bytearray, dice: random.Random) -> None:
    lines = bytes(data).split(b"\n")
    dice.shuffle(lines)
    data[:] = b"\n".join(lines)


MUTATIONS: list[Callable[[bytearray, random.Random], None]] = [flip, cut, insert, shuffle]


@pytest.mark.slow("2000-csv", "2000-npz", "2000-parquet", "2000-nc", "2000-nc4")
@pytest.mark.parametrize("kind", ["csv", "npz", "parquet", "nc", "nc4"])
@pytest.mark.parametrize("count", [50, 2000, pytest.param(10**4, marks=pytest.mark.long)])
def test_any_mutation_of_a_file_reads_or_is_refused(tmp_path: Path, kind: str, count: int) -> None:
    needs(kind)
    if kind == "nc4" and count > 2000:
        pytest.skip("One of these makes HDF5 itself run on (over 3 minutes, below h5py dims.__len__).")
    path = tmp_path / f"t.{kind[:2] if kind == 'nc4' else kind}"
    if kind == "nc4":
        import xarray

        columns = {name: ("row_", column) for name, column in TABLE.columns.items()}
        xarray.Dataset(columns).to_netcdf(path, engine="h5netcdf")
    else:
        write(path, TABLE)
    sound, dice, refused = path.read_bytes(), random.Random(count), 0
    here = kind in ("csv", "npz")  # a separate process for each case of the others would take an hour
    for _ in range(count):
        changed = bytearray(sound)
        for mutate in dice.choices(MUTATIONS, k=dice.choice([1, 1, 2, 4])):
            mutate(changed, dice)
        path.write_bytes(changed)
        try:
            table = read(path) if here else Table.gathered(bytes(changed), tables.READERS[path.suffix])
            assert np.isfinite(
                table.matrix([n for n in table.names if table.column(n).dtype.kind == "f"])
            ).all()
        except TableError as error:
            assert not here or str(path) in str(error)
            refused += 1
        except Exception as error:  # of the library; `read` converts it to a TableError
            assert not here and not isinstance(error, MemoryError), error
            refused += 1
    assert refused > count / 4


def parquet(**columns: Any) -> bytes:
    arrow, to = pytest.importorskip("pyarrow"), io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), to)
    return to.getvalue()


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (".parquet", lambda: parquet(x=[[1.0], [2.0]]), "should hold numbers or text"),
        (".parquet", lambda: parquet(x=[1.0, None]), "should be complete"),
    ],
)
def test_what_other_libraries_read_is_refused_in_words(kind: str, data: Any, message: str) -> None:
    """Read in this process, whereas `read` starts another one."""
    with pytest.raises(TableError, match=message):
        Table.gathered(data(), tables.READERS[kind])


@pytest.mark.parametrize(("known", "set_anew"), [(-1, True), (2**62, True), (1, False)])
def test_a_reader_is_limited_unless_it_is_limited_more(
    monkeypatch: pytest.MonkeyPatch, known: int, set_anew: bool
) -> None:
    """-1 means that there is no limit."""
    resource = pytest.importorskip("resource")
    limits: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (known, known))
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    separate.limit(1000)
    assert (resource.RLIMIT_CPU in limits) is set_anew


@pytest.mark.slow
def test_a_parquet_of_long_cells_is_said_to_be_too_large(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    cells = [chr(97 + i % 26) * 10**6 + str(i) for i in range(300)]
    parquet.write_table(arrow.table({"u": cells}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"The columns (should )?take .* times the bytes of their file"):
        read(tmp_path / "t.parquet")


def test_a_netcdf_that_leads_elsewhere_names_the_link(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("h5netcdf")
    with h5py.File(tmp_path / "other.nc", "w") as file:
        file["u"] = np.arange(5.0)
    with h5py.File(tmp_path / "t.nc", "w") as file:
        file["u"] = h5py.ExternalLink("other.nc", "/u")
    with pytest.raises(TableError, match="`u` should be in the file itself, but is a link"):
        read(tmp_path / "t.nc")
