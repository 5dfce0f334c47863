"""Rows are whole lines, whatever happens while they are written."""

import pytest

from unbag.paper.rows import append_rows, load_rows, run_and_keep


def square(number):
    return [{"number": number, "square": number**2}]


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "study" / "rows.jsonl"
    assert load_rows(path) == []
    append_rows(path, [{"name": "½", "values": [1, 2]}])
    append_rows(path, [{"name": "b"}, {"name": "c"}])
    assert load_rows(path) == [{"name": "½", "values": [1, 2]}, {"name": "b"}, {"name": "c"}]


@pytest.mark.parametrize("line", ['{"auc": ', "3"])
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"auc": 1}\n' + line)
    with pytest.raises(ValueError, match=r"Line 2 of .*rows\.jsonl is damaged; delete it"):
        load_rows(path)


def test_rows_added_after_a_damaged_line_are_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"auc": ')
    append_rows(path, [{"auc": 1}])
    assert path.read_text() == '{"auc": \n{"auc": 1}\n'


def test_rows_are_on_disk_before_they_are_given(tmp_path):
    path = tmp_path / "rows.jsonl"
    for rows in run_and_keep(square, [{"number": n} for n in range(3)], path):
        assert load_rows(path)[-1:] == rows
    assert [row["square"] for row in load_rows(path)] == [0, 1, 4]
