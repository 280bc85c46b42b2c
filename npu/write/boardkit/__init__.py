"""What `rknnctl board-test` tries on a board: tiny models for each chip, with what each answer to an open question would
give. Expectations are plain integers, written from the questions in docs/board-testing.md, and share nothing with what
computes them later.

python3 -m boardkit OUT writes OUT/CHIP.tar.xz for each chip: kit.json and the files that it names."""
