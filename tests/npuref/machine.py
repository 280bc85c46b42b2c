"""Runs tasks: registers of the two groups, the blocks that a task enables, their tables."""
from npuref import Unsupported, conv, dpu, ppu
from npuref.integers import signed
from npuref.program import CNA, DPU, PPU, Groups
from npuref.registers import TABLE
from npuref.rk3562 import RK3562, RK3576
from npuref.rk3588 import RK3568, RK3588

LUT_ACCESS, LUT_DATA = (TABLE[name][0] for name in ("LUT_ACCESS_CFG", "LUT_ACCESS_DATA"))
CHIPS = {"rk3588": RK3588, "rk3566": RK3568, "rk3568": RK3568, "rk3562": RK3562, "rk3576": RK3576,
         "rv1126b": RK3576}


class Machine:
    def __init__(self, chip, memory):
        if chip not in CHIPS:
            raise Unsupported(f"chip {chip}")
        self.chip, self.memory, self.groups = CHIPS[chip], memory, Groups()
        self.tables = [[0] * 513, [0] * 513]

    def _load_tables(self, task):
        table, at = None, 0
        for register, value in task.writes:
            if register == LUT_ACCESS and value >> 17 & 1:
                table, at = self.tables[value >> 16 & 1], value & 0x3FF
            elif register == LUT_DATA and table is not None:
                if at < len(table):  # RK3566 and RK3568 write one more
                    table[at] = signed(value, 16)
                at += 1
        return table is not None

    def run(self, task):
        r = self.groups.load(task)
        if self._load_tables(task):
            return
        unit = self.chip(r, self.memory, self.tables)
        unit.refuse_unread()
        if task.enable & CNA:
            core = conv.sums(unit.conv(), self.memory)
            dpu.run(unit.plan(True), self.memory, core)
        elif task.enable & DPU:
            dpu.run(unit.plan(False), self.memory)
        elif task.enable & PPU:
            ppu.run(unit, self.memory)
        else:
            raise Unsupported(f"a task that enables {task.enable:#x}")
