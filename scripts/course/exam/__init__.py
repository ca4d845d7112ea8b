"""An exam, drawn from a seed and a secret of the teacher's: notebooks/src/exam.md, filled in."""
