import errno
import gzip
import json
import os
import re
import stat

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpfast._csv_form import USUAL_FORM, CsvForm
from dpfast._files import atomic_writer, parse_json, read_text
from dpfast._table_files import read_csv, table_chunks, table_header
from dpfast.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def rows(path, *columns):
    return {name: values.tolist() for name, values in read_csv(path, columns).items()}


class TestReadCsv:
    def test_columns_in_the_order_asked_and_the_rest_named(self, write):
        path = write("a,b,c,d\n1,2,3,4\n5,6,7,8\n")
        table = read_csv(path, ["c", "a"])
        assert list(table) == ["c", "a"]
        assert table["c"].tolist() == ["3", "7"]
        assert table["a"].dtype.kind == "U"
        assert table_header(path) == ["a", "b", "c", "d"]

    @pytest.mark.parametrize(
        "text",
        [
            "a,b\n1,x\n2,y\n",
            "a,b\n1,x\n2,y",
            "a,b\r\n1,x\r\n2,y\r\n",
            "\ufeffa,b\n1,x\n2,y\n",
            " a , b \n 1 , x \n2,  y\n",
            '"a","b"\n"1","x"\n"2", "y"\n',
            "\n\na,b\n\n1,x\n\n\n2,y\n\n",
        ],
        ids=["plain", "no-final-newline", "crlf", "bom", "spaces", "quoted", "blank-lines"],
    )
    def test_same_content(self, write, text):
        assert rows(write(text), "a", "b") == {"a": ["1", "2"], "b": ["x", "y"]}

    def test_quoted_commas_quotes_and_line_breaks(self, write):
        path = write('a,b\n"1, 2","say ""hi"""\n"x\ny",#no comment\n')
        assert rows(path, "a", "b") == {"a": ["1, 2", "x\ny"], "b": ['say "hi"', "#no comment"]}

    def test_empty_fields(self, write):
        assert rows(write("a,b\n,\n1,\n"), "a", "b") == {"a": ["", "1"], "b": ["", ""]}

    def test_one_row(self, write):
        assert rows(write("a,b\n1,x\n"), "a", "b") == {"a": ["1"], "b": ["x"]}

    def test_one_column(self, write):
        assert rows(write("a\n1\n2\n"), "a") == {"a": ["1", "2"]}

    def test_gzip(self, write):
        assert rows(write(gzip.compress(b"a\n1\n", mtime=0), "data.csv.gz"), "a") == {"a": ["1"]}

    def test_chunks_have_all_rows_in_order(self, write):
        values = [str(10**k) for k in range(8)]
        path = write("a\n" + "\n\n".join(values) + "\n\n\n\n\n\n")
        parts = [chunk["a"] for chunk in table_chunks(path, ["a"], rows=3)]
        assert len(parts) > 2 and max(map(len, parts)) <= 3
        assert [value for part in parts for value in part] == values == rows(path, "a")["a"]

    @pytest.mark.parametrize("chunk", [2, 50_000])
    @pytest.mark.parametrize(
        ("text", "line", "width"),
        [
            ("a,b\n1,2\n3\n", 3, 1),
            ("a,b\n1,2\n3,4\n5,6,7\n", 4, 3),
            ("\na,b\n\n1,2\n\n3,4,\n", 6, 3),
            ('a,b\n"1\n1\n1",2\n3,4\n5,6\n7\n', 7, 1),
            ("a,b\n1,2\n   \n", 3, 1),
        ],
    )
    def test_ragged_rows_name_the_line(self, write, text, line, width, chunk):
        with pytest.raises(DataError, match=f"line {line}: {width} fields? where the header has 2"):
            list(table_chunks(write(text), ["a", "b"], rows=chunk))

    @pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", ",,\n"])
    def test_empty(self, write, text):
        with pytest.raises(DataError, match="is empty"):
            read_csv(write(text), ["a"])

    @pytest.mark.parametrize("text", ["a,b", "a,b\n", "a,b\n\n\n"])
    def test_header_only(self, write, text):
        with pytest.raises(DataError, match="no rows"):
            read_csv(write(text), ["a"])

    def test_missing_columns(self, write):
        with pytest.raises(DataError, match=r"lacks the columns 'A', 'b'\. The file has: 'a;b'"):
            read_csv(write("a;b\n1;2\n"), ["A", "b"])

    @pytest.mark.parametrize(
        ("header", "hint"),
        [
            ("a;b", r'there are semicolons\. Declare "separator": ";" in the bounds'),
            ("a\tb", r'there are tabs\. Declare "separator": "\\t"'),
            ("A,b", r"lacks the column 'a'\. .* Did you mean 'A'\?"),
            ("a;c, d", "there are semicolons"),
            ("x;y", r"first line has 1 field, .* there are semicolons"),
            (
                "aa,y",
                r"2 fields, not shown since it could be a record\. Names must stand in .*\.$",
            ),
        ],
    )
    def test_what_names_may_have_been_meant(self, write, header, hint):
        with pytest.raises(DataError, match=hint):
            read_csv(write(f"{header}\n1\n"), ["a", "b"])

    @pytest.mark.parametrize("sign", [";", ",", "\t"])
    @pytest.mark.parametrize("value", ["1", '"1"'])
    def test_the_line_that_tells_excel_what_separates(self, write, sign, value):
        path, form = write(f"sep={sign}\r\na{sign}b\r\n{value}{sign}2\r\n"), CsvForm(sign)
        assert table_header(path, form) == ["a", "b"]
        for arrow in (False, True):
            (chunk,) = table_chunks(path, ["b", "a"], arrow=arrow, form=form)
            assert [list(map(str, chunk[name])) for name in ("b", "a")] == [["2"], ["1"]]
        other = CsvForm("|")
        message = rf"begins with 'sep={re.escape(repr(sign)[1:-1])}', .* Declare \"separator\": "
        with pytest.raises(DataError, match=message):
            table_header(path, other)
        path = write(f"sep={sign}\na{sign}b\n1\n")
        with pytest.raises(DataError, match="line 3: 1 field where the header has 2"):
            list(table_chunks(path, ["a"], form=form))

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    @pytest.mark.parametrize("name", ["pipe", "pipe.parquet"])
    def test_a_pipe_is_refused_and_not_waited_for(self, tmp_path, name):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match="which can be read more than once; got a pipe"):
            table_header(tmp_path / name)

    def test_a_record_in_the_place_of_names_is_not_shown(self, write):
        message = "lacks the columns 'age', 'ill'. The first line has 2 fields"
        with pytest.raises(DataError, match=message) as caught:
            read_csv(write("34,secret\n35,secret\n"), ["age", "ill"])
        said = str(caught.value).partition("data.csv")[2]
        assert "34" not in said and "secret" not in said

    def test_nor_is_one_with_a_value_that_is_called_like_a_column(self, write):
        said = set()
        for value in ("y", "n"):
            with pytest.raises(
                DataError, match="The first line has 3 fields, not shown since it could"
            ) as caught:
                read_csv(write(f"34,{value},secret\n35,n,secret\n"), ["age", "y", "ill"])
            said.add(str(caught.value).partition("data.csv")[2])
        (same,) = said  # not even which of the names it is
        assert "34" not in same and "secret" not in same
        with pytest.raises(DataError, match="'age', 'y', 'sick'"):
            read_csv(write("age,y,sick\n34,n,1\n"), ["age", "y", "ill"])

    @pytest.mark.parametrize(
        ("record", "wanted"),
        [("34,y,secret", ["age", "y"]), ("n,Y,secret", ["y"]), ("34,y,n,secret", ["N", "Y", "k"])],
    )
    def test_nor_is_one_with_a_single_name_or_numbers(self, write, record, wanted):
        with pytest.raises(DataError, match="could be a record") as caught:
            read_csv(write(f"{record}\n{record}\n"), wanted)
        assert not {"34", "secret", "n"} & set(re.findall(r"'(\w+)'", str(caught.value)))

    def test_many_columns_are_cut_short_in_messages(self, write):
        header = ",".join(f"c{j}" for j in range(100))
        with pytest.raises(DataError, match="'c11' and 88 more"):
            read_csv(write(header + "\n"), ["x", "c0"])

    def test_repeated_column(self, write):
        with pytest.raises(DataError, match="'a' more than once"):
            read_csv(write("a,b,a\n1,2,3\n"), ["a"])
        assert rows(write("a,b,a\n1,2,3\n"), "b") == {"b": ["2"]}

    def test_not_utf8(self, write):
        with pytest.raises(DataError, match="not UTF-8") as caught:
            read_csv(write("a\nä\n".encode("latin-1")), ["a"])
        assert caught.value.__cause__ is None  # it quotes a byte

    @pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "UTF_8", "utf-8-sig"])
    def test_declared_encoding_and_separator(self, write, encoding):
        path, form = write("ä;b\n1,5;ü\n".encode(encoding)), CsvForm(";", encoding=encoding)
        assert table_header(path, form) == ["ä", "b"]
        for arrow in (False, True):
            (chunk,) = table_chunks(path, ["b", "ä"], arrow=arrow, form=form)
            assert [list(map(str, chunk[name])) for name in ("b", "ä")] == [["ü"], ["1,5"]]
        with pytest.raises(DataError, match=r"there are semicolons|not UTF-8"):
            list(table_chunks(path, ["b"]))
        path, form = write("a\nä\n".encode("cp1252")), CsvForm(encoding="utf-16")
        with pytest.raises(DataError, match="is not UTF-16 text"):
            list(table_chunks(path, ["a"], form=form))
        with pytest.raises(DataError, match='contain semicolons in double quotes: "a; b"'):
            list(table_chunks(write("a;b\n1;2;3\n"), ["a"], form=CsvForm(";")))

    @pytest.mark.parametrize(
        ("written", "declared"),
        [("utf-16", "cp1252"), ("utf-8-sig", "latin-1"), ("utf-32", "utf-8"), ("utf-16", "u8")],
    )
    def test_a_mark_says_the_encoding(self, write, written, declared):
        name = written.removesuffix("-sig")
        path, form = write("a,b\n1,2\n".encode(written)), CsvForm(encoding=declared)
        with pytest.raises(DataError, match=f"is {name.upper()} text, .* Give --encoding {name},"):
            list(table_chunks(path, ["a"], form=form))
        assert table_header(path, CsvForm(encoding=name)) == ["a", "b"]

    def test_names_that_look_like_signs_of_binary_files(self, write):
        assert rows(write("PAR1,BZh\n1,2\n"), "PAR1", "BZh") == {"PAR1": ["1"], "BZh": ["2"]}

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            (b"PK\x03\x04\x14\x00", "an Excel workbook or another zip archive"),
            (b"\xd0\xcf\x11\xe0\xa1", "an old Excel workbook"),
            (b"PAR1\x15", r"a Parquet file, whose name should end in \.parquet"),
            (gzip.compress(b"a\n1\n", mtime=0), r"a gzip file, whose name should end in \.gz"),
        ],
    )
    @pytest.mark.parametrize("arrow", [False, True])
    def test_what_is_no_text(self, write, content, kind, arrow):
        for form in (USUAL_FORM, CsvForm(encoding="latin-1")):
            with pytest.raises(DataError, match=f"must be a CSV or Parquet file; it is {kind}"):
                list(table_chunks(write(content), ["a"], arrow=arrow, form=form))

    def test_unclosed_quote(self, write):
        with pytest.raises(DataError, match=r"line 3: .*ends with one, and holds others doubled"):
            read_csv(write('a,b\n1,2\n"3,4\n'), ["a"])

    @pytest.mark.parametrize(
        "content", [b"a\n1\n", gzip.compress(b"a\n" + b"1\n" * 999, mtime=0)[:-12]]
    )
    def test_broken_gzip(self, write, content):
        with pytest.raises(DataError, match="gzip"):
            read_csv(write(content, "data.csv.gz"), ["a"])

    def test_no_such_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            read_csv(tmp_path / "none.csv", ["a"])

    def test_a_long_text_does_not_widen_the_other_columns(self, write):
        table = read_csv(write("a,b\n1," + "x" * 10_000 + "\n"), ["a", "b"])
        assert table["a"].dtype == np.dtype("<U1")

    @given(content=st.binary(max_size=60))
    @settings(max_examples=300)
    def test_only_data_errors_come_out(self, write, content):
        path = write(b"a,b\n" + content)
        try:
            table = read_csv(path, ["a", "b"])
        except DataError:
            return
        assert table["a"].shape == table["b"].shape


class TestParseJson:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"a": 1, "a": 2}', "'a' appears twice"),
            ("[NaN]", "NaN is not"),
            ("[-Infinity]", "-Infinity is not"),
            ("[1e999]", "too large"),
            ("", "Expecting value"),
            ("{} {}", "Extra data"),
            ("[" * 200_000, "nested too deeply|Expecting"),
            ("[" * 101 + "]" * 101, "nested too deeply"),
            ('{"a": [' * 50 + "{}" + "]}" * 50, "nested too deeply"),
            ("1" * 5000, "integer string"),
        ],
        ids=lambda text: text[:12],
    )
    def test_refused(self, text, message):
        with pytest.raises(ValueError, match=message):
            parse_json(text)

    @pytest.mark.parametrize(
        "text", ["[" * 100 + "]" * 100, '{"a": [' * 50 + "0" + "]}" * 50, "7", '"a"', "null"]
    )
    def test_passed(self, text):
        assert json.dumps(parse_json(text)) == text

    def test_what_only_python_writes(self):
        text = "[NaN, Infinity, -Infinity]"
        assert json.dumps(parse_json(text, allow_nan=True)) == text
        with pytest.raises(ValueError, match="twice"):
            parse_json('{"a": NaN, "a": NaN}', allow_nan=True)


class TestAtomicWriter:
    def test_writes(self, tmp_path):
        with atomic_writer(tmp_path / "x") as stream:
            stream.write("ä\n")
        assert (tmp_path / "x").read_bytes() == "ä\n".encode()
        assert os.listdir(tmp_path) == ["x"]

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_keeps_the_old_file_on_failure(self, tmp_path, error):
        path = tmp_path / "x"
        path.write_text("old")
        with pytest.raises(error), atomic_writer(path) as stream:
            stream.write("new")
            raise error
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x"]

    def test_a_full_disk_is_told_with_the_name_of_the_file(self, tmp_path):
        with pytest.raises(OSError, match="No space left") as caught, atomic_writer(tmp_path / "x"):
            raise OSError(errno.ENOSPC, "No space left on device")
        assert caught.value.filename == str(tmp_path / "x")
        with pytest.raises(OSError, match="Input/output") as caught, atomic_writer(tmp_path / "x"):
            raise OSError(errno.EIO, "Input/output error")  # of what is read meanwhile, perhaps
        assert caught.value.filename is None

    def test_readers_see_the_old_file_until_the_end(self, tmp_path):
        path = tmp_path / "x"
        path.write_text("old")
        with atomic_writer(path) as stream:
            stream.write("new")
            stream.flush()
            assert path.read_text() == "old"
        assert path.read_text() == "new"

    @pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
    def test_permissions_follow_the_umask(self, tmp_path):
        umask = os.umask(0o027)
        try:
            with atomic_writer(tmp_path / "x"):
                pass
        finally:
            os.umask(umask)
        assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640

    @pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
    def test_follows_links(self, tmp_path):
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to(tmp_path / "real")
        with atomic_writer(tmp_path / "link") as stream:
            stream.write("new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "new"

    @pytest.mark.skipif(os.name == "nt", reason="needs /dev")
    def test_devices_are_written_and_not_replaced(self):
        with atomic_writer(os.devnull) as stream:
            stream.write("gone")
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)

    def test_directory(self, tmp_path):
        with pytest.raises(IsADirectoryError), atomic_writer(tmp_path):
            pass

    def test_no_directory(self, tmp_path):
        absent = tmp_path / "absent"
        message = re.escape(f"cannot write {absent / 'a.txt'}: there is no directory {absent}.")
        with pytest.raises(FileNotFoundError, match=message), atomic_writer(absent / "a.txt"):
            pass

    def test_long_name(self, tmp_path):
        with atomic_writer(tmp_path / ("x" * 250)):
            pass
        assert os.listdir(tmp_path) == ["x" * 250]

    def test_long_name_of_wide_characters(self, tmp_path):
        with atomic_writer(tmp_path / ("\N{GREEK SMALL LETTER OMEGA}" * 125)):
            pass
        assert [len(os.fsencode(name)) for name in os.listdir(tmp_path)] == [250]

    def test_compressed_by_its_name(self, tmp_path):
        for _ in range(2):
            with atomic_writer(tmp_path / "x.gz") as stream:
                stream.write("ä\n")
        first = (tmp_path / "x.gz").read_bytes()
        assert gzip.decompress(first) == "ä\n".encode()
        with atomic_writer(tmp_path / "y.gz") as stream:
            stream.write("ä\n")
        assert (tmp_path / "y.gz").read_bytes() == first
        with pytest.raises(ValueError), atomic_writer(tmp_path / "x.gz") as stream:
            stream.write("new")
            raise ValueError
        assert (tmp_path / "x.gz").read_bytes() == first
        assert read_text(tmp_path / "x.gz") == "ä\n"
        (tmp_path / "x.gz").write_bytes(first[:-1])
        with pytest.raises(ValueError, match="not a complete gzip file"):
            read_text(tmp_path / "x.gz")


def test_progress_ends_at_the_end(tmp_path):
    text = "a\n" + "1\n" * 24_000
    (tmp_path / "x.csv").write_text(text)
    with atomic_writer(tmp_path / "x.csv.gz") as stream:
        stream.write(text)
    for name in ("x.csv", "x.csv.gz"):
        shares = []
        list(table_chunks(tmp_path / name, ["a"], shares.append, rows=10_000))
        assert len(shares) == 3
        assert shares == sorted(shares)
        assert 0.0 < shares[0] <= shares[-1] == 1.0


class TestReadParquet:
    @pytest.fixture
    def write(self, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        def write(columns, **options):
            path = tmp_path / "x.parquet"
            parquet.write_table(pyarrow.table(columns), path, **options)
            return path

        return write

    def test_columns_in_the_order_asked(self, write):
        shares = []
        path = write({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0, 0, 0]}, row_group_size=2)
        parts = list(table_chunks(path, ["b", "a"], shares.append, rows=2))
        assert [list(part) for part in parts] == [["b", "a"]] * 2
        assert [part["b"].to_pylist() for part in parts] == [["x", None], ["z"]]
        assert table_header(path) == ["a", "b", "c"]
        assert shares == [2 / 3, 1.0]

    def test_errors(self, write, tmp_path):
        path = write({"a": [[1], [2]], "b": [1, 2]})
        with pytest.raises(DataError, match="lacks the column 'c'"):
            list(table_chunks(path, ["c"]))
        with pytest.raises(DataError, match="has columns but no rows"):
            list(table_chunks(write({"a": np.array([], dtype=float)}), ["a"]))
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(DataError, match="is not a complete Parquet file"):
            list(table_chunks(path, ["a"]))
        with pytest.raises(FileNotFoundError):
            list(table_chunks(tmp_path / "none.parquet", ["a"]))


@pytest.mark.parametrize("text_bytes", [7, 64, 2**20])
class TestFastCsv:
    """What PyArrow reads of plain text is what the standard library reads, to the last error."""

    @pytest.fixture(autouse=True)
    def small_blocks(self, text_bytes, monkeypatch):
        pytest.importorskip("pyarrow")
        monkeypatch.setattr("dpfast._table_files._TEXT_BYTES", text_bytes)

    @staticmethod
    def read(path, columns, arrow, form=USUAL_FORM):
        try:
            chunks = list(table_chunks(path, columns, rows=3, arrow=arrow, form=form))
        except DataError as error:
            return str(error)
        plain = [
            {
                name: getattr(column, "to_pylist", lambda c=column: list(c))()
                for name, column in c.items()
            }
            for c in chunks
        ]
        return {name: [value for chunk in plain for value in chunk[name]] for name in columns}

    @pytest.mark.parametrize(
        "text",
        [
            "a,b\n1,x\n2,y\n",
            "a,b\n1,x\n2,y",
            "a,b\r\n1,x\r\n2,y\r\n",
            "a,b\r1,x\r2,y\r",
            "\ufeffa,b\n1,x\n2,y\n",
            " a , b \n1 ,x\t\n2,y\n",
            "a,b\n1, x\n 2,y\n3,z\n",
            "\n\na,b\n\n1,x\n\n\n2,y\n\n",
            "a,b\n1,x\n" * 3,
            "a,b\n1,NA\nnull,\n,nan\n",
            'a,b\n1,x\n2,y\n3,z\n4,"u, v"\n5,w\n',
            'a,b\n1,x\n2,y\n3,"z\n4"\n5,w\n',
            'a,b\n1,x\n2,y"\n3,z\n',
            "a,b\n1,x\n2,y\n3\n",
            "a,b\n1,x\n2,y\n3,z,u\n4,v\n",
            "a,b\n1,x\n   \n2,y\n",
            "a,b,a\n1,x,2\n",
            "a,b,c,c\n1,x,2,3\n4,y,5,6\n",
            "a,b\n",
            "a,b",
            "",
            "b\n1\n",
            "a,b\n1,Zürich\n2,東京\n",
            "a,b\n1,x\x00y\n",
        ],
    )
    def test_same_rows_or_same_error(self, tmp_path, text):
        path = tmp_path / "x.csv"
        path.write_bytes(text.encode())
        assert self.read(path, ["b", "a"], True) == self.read(path, ["b", "a"], False)
        with atomic_writer(tmp_path / "x.csv.gz") as stream:
            stream.write(text)
        packed = tmp_path / "x.csv.gz"
        found = self.read(packed, ["b", "a"], True)
        assert found == self.read(packed, ["b", "a"], False)
        for sign in ";\t|":
            form = CsvForm(sign)
            path.write_bytes(text.replace(",", sign).encode())
            found = self.read(path, ["b", "a"], True, form)
            assert found == self.read(path, ["b", "a"], False, form)

    def test_what_is_no_text_or_no_gzip(self, tmp_path):
        for name, content in (
            ("x.csv", b"a\n1\n2\n\xff\n3\n"),
            ("x.csv.gz", gzip.compress(b"a\n" + b"1\n" * 5000, mtime=0)[:-9]),
            ("y.csv.gz", b"a\n1\n"),
        ):
            (tmp_path / name).write_bytes(content)
            found = self.read(tmp_path / name, ["a"], True)
            assert isinstance(found, str)
            assert found == self.read(tmp_path / name, ["a"], False)

    @given(text=st.text(alphabet='a,1 "\n\r\u00e4', max_size=60))
    @example(text="\ufeff1,2\n")
    @settings(max_examples=300, deadline=None)
    def test_any_text(self, tmp_path_factory, text):
        path = tmp_path_factory.mktemp("csv") / "x.csv"
        path.write_bytes(f"a,b\n{text}".encode())
        assert self.read(path, ["a", "b"], True) == self.read(path, ["a", "b"], False)

    def test_progress_ends_at_the_end(self, tmp_path):
        path, shares = tmp_path / "x.csv", []
        path.write_text("a,b\n" + "1,x\n" * 100)
        list(table_chunks(path, ["a"], shares.append, arrow=True))
        assert shares == sorted(shares) and shares[-1] == 1.0
