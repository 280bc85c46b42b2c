#!/usr/bin/python3
"""npu/model/rknn/program against a reading of its own: every address that programs take, in all shared files."""
import os
import pathlib
import struct
import unittest

import numpy as np

from npuref import loader, program
from npuref.files import FILES
from support import rknn_reader

# Of the NPU: commands, constants, arena.
BASES = (0x1000_0000, 0x2000_0000, 0x4000_0000)
OLD = {0x1070, 0x1110, 0x4020, 0x5018, 0x5020, 0x502C, 0x5038, 0x6070, 0x701C}
NEW = {0x1088, 0x1110, 0x4018, 0x5018, 0x5020, 0x502C, 0x5038, 0x6070, 0x701C}
BY_CHIP = {"rk3562": NEW, "rk3576": NEW | {0x5024, 0x5030}, "rv1126b": NEW | {0x5024, 0x5030}}
VALUE = 0xFFFFFFFF << 16
# Files that programs cannot be made of, and why.
REFUSED = {
    "multiple_input_demo_container2.rk3588": "weight conv1.weight is compressed",
    "rknpu1_mnist.rv1126": "the model is for RKNPU1",
}
DUMMY = "tempMC"  # constants in name: what programs of several cores wait on


def register(word):
    return word & 0xFFFF


def value(word):
    return word >> 16 & 0xFFFFFFFF


class Places:
    """Where the loader puts tensors, for npuref.program."""

    bytes = None

    def __init__(self, file, loaded):
        self.bases, self.parts = {}, {}
        for i, t in enumerate(file.tensors):
            part, offset = loaded.place(i)
            if part != loader.NOWHERE:
                self.bases[t.name], self.parts[t.name] = BASES[part] + offset, (part, offset)


class Addresses(unittest.TestCase):
    counted = [0, 0]  # addresses, those that are not zero

    def each(self):
        if not FILES:
            self.skipTest("no shared models")
        for name, path in FILES.items():
            if name in REFUSED:
                continue
            with self.subTest(name):
                data = path.read_bytes()
                with loader.Loader(data) as loaded:
                    file = rknn_reader.read(data)
                    file.bytes = data
                    yield file, loaded

    def check_places(self, file, loaded, places):
        """Tensors of the arena are where the file says; others are apart from each other and hold their data."""
        ends = {loader.CONSTANTS: loaded.number("constants"), loader.ARENA: loaded.number("arena")}
        taken = []
        for t in file.tensors:
            if t.name not in places.parts or not t.size and not t.data:
                continue
            part, offset = places.parts[t.name]
            self.assertLessEqual(offset + len(t.data or b""), ends[part], t.name)
            if t.kind in program.ON_CHIP and not t.data:
                self.assertEqual((part, offset), (loader.ARENA, t.offset), t.name)
            else:
                self.assertEqual(offset % 64, 0)
                taken.append((part, offset, offset + len(t.data), t.name))
        inside = max((t.offset + t.size for t in file.tensors if t.kind in program.ON_CHIP and not t.data), default=0)
        for (part, _, end, name), (next_part, start, _, after) in zip(sorted(taken), sorted(taken)[1:]):
            self.assertTrue(part != next_part or end <= start, f"{name} and {after}")
        for part, start, _, name in taken:
            self.assertTrue(part == loader.CONSTANTS or start >= inside, name)

    def check_commands(self, file, words, expected):
        """Nothing but addresses and links is changed. Returns the commands of tasks."""
        tasks = next(t.data for t in file.tensors if t.kind == program.TASKS)
        own, links = set(), {}
        for i in range(len(tasks) // 40):
            record = struct.unpack_from("<8IQ", tasks, 40 * i)
            first, count = record[8] // 8, record[6]
            own.update(range(first, first + count))
            if expected[first + count]:
                links[first + count] = BASES[0]
        for at, base in links.items():
            word = int(expected[at])
            expected[at] = np.uint64(word & ~VALUE | value(word) + base << 16)
        np.testing.assert_array_equal(words, expected)
        return own, links

    def count(self, file, own, original, changed):
        registers = BY_CHIP.get(file.chip, OLD)
        addresses = [i for i in own if register(int(original[i])) in registers]
        patched = [i for i in addresses if i in changed]
        for i in set(addresses) - set(patched):
            self.assertEqual(value(int(original[i])), 0, f"command {i}")
        self.assertEqual(len(changed), len(patched))
        self.counted[0] += len(addresses)
        self.counted[1] += len(patched)
        return len(addresses), len(patched)

    def test_container_6(self):
        for file, loaded in self.each():
            if file.container != 6:
                continue
            places = Places(file, loaded)
            self.check_places(file, loaded, places)
            original = np.frombuffer(next(t.data for t in file.tensors if t.kind == program.COMMANDS), "<u8")
            changed = {struct.unpack_from("<i", e.data, e.start(1) + 8 * i + 4)[0]
                       for e in file.graph.tables(7) for i in range(e._unpack("I", e.start(1) - 4))}
            words = loaded.relocated(*BASES)
            own, links = self.check_commands(file, words, program.relocated(file, places))
            self.assertEqual(self.count(file, own, original, changed),
                             (loaded.number("addresses"), loaded.number("patched")))
            self.assertEqual(len(links), loaded.number("links"))

    def test_tasks_of_one_core(self):
        for file, loaded in self.each():
            if file.container == 0x1004:
                continue
            words, places = loaded.relocated(*BASES), Places(file, loaded)
            found = [(node, enable, program.decoded(words[first : first + n]))
                     for node in range(len(file.nodes)) for _, enable, first, n in loaded.tasks(node)]
            expected = [(t.node, t.enable, t.writes) for t in program.tasks(file, places)]
            self.assertEqual(len(found), len(expected))
            for f, x in zip(found, expected):
                self.assertEqual(f, x)

    def test_all_tasks_are_somebodys(self):
        for file, loaded in self.each():
            if file.container != 6 or not file.graph.vector(10):
                continue
            found = {number for node in range(len(file.nodes)) for cores in (1, 2, 3) for core in range(3)
                     for number, *_ in (loaded.tasks(node, cores, core) if core < cores or cores == 1 else ())}
            self.assertEqual(found, set(range(loaded.number("tasks"))))

    def test_flat_memory_of_0x1004(self):
        for file, loaded in self.each():
            if file.container != 0x1004:
                continue
            header = struct.unpack_from("<16I", file.bytes, 0x40)
            commands, arena, weights, scratch = (header[i] for i in (3, 4, 5, 6))
            start = 0x40 + 64 + header[1]
            original = np.frombuffer(file.bytes[start : start + commands], "<u8")
            words = loaded.relocated(*BASES)
            aligned = -(-scratch // 64) * 64
            own = [i for node in range(len(file.nodes)) for _, _, first, n in loaded.tasks(node)
                   for i in range(first, first + n)]
            # What OutputOperator makes for programs may lie behind the arena that the file asks for.
            behind = {i for node, n in enumerate(file.nodes) if n.op == "OutputOperator"
                      for _, _, first, n in loaded.tasks(node) for i in range(first, first + n)}
            for i in own:
                old, new = int(original[i]), int(words[i])
                at = value(old)
                if register(old) not in OLD or not at:
                    self.assertEqual(old, new)
                    continue
                into = at - commands
                room = loaded.number("arena") - aligned if i in behind else arena
                self.assertLess(into, scratch + weights + room)
                where = (BASES[2] + into if into < scratch else
                         BASES[1] + into - scratch if into < scratch + weights else
                         BASES[2] + aligned + into - scratch - weights)
                self.assertEqual(value(new), where)
            changed = [i for i in own if register(int(original[i])) in OLD and value(int(original[i]))]
            self.count(file, own, original, set(changed))

    def test_what_is_refused(self):
        if not FILES:
            self.skipTest("no shared models")
        for name, why in REFUSED.items():
            with self.subTest(name), self.assertRaisesRegex(loader.Refused, why):
                loader.Loader(FILES[name].read_bytes())

    def test_addresses_beyond_the_registers(self):
        if "conv2d.rk3576" not in FILES:
            self.skipTest("no shared models")
        with loader.Loader(FILES["conv2d.rk3576"].read_bytes()) as loaded:
            with self.assertRaises(loader.Refused):
                loaded.relocated(0, 1 << 32, 0)
            with self.assertRaises(loader.Refused):
                loaded.relocated(0, 0, (1 << 32) - 4096)

    @classmethod
    def tearDownClass(cls):
        print(f"{cls.counted[0]} writes to registers of addresses, {cls.counted[1]} of them patched, the others zero")


class Damage(unittest.TestCase):
    """What is not as the file's other parts say is refused."""

    NAME = "test_conv_c16.rk3588"

    def setUp(self):
        if self.NAME not in FILES:
            self.skipTest("no shared models")
        self.data = bytearray(FILES[self.NAME].read_bytes())
        self.file = rknn_reader.read(bytes(self.data))
        self.commands = next(t.data for t in self.file.tensors if t.kind == program.COMMANDS)
        self.tasks = next(t.data for t in self.file.tensors if t.kind == program.TASKS)

    def change(self, part, at, form, number):
        """Writes a number into a part of the file."""
        place = bytes(self.data).index(part)
        struct.pack_into(form, self.data, place + at, number)

    def refused(self, words):
        with self.assertRaisesRegex(loader.Refused, words):
            loader.Loader(bytes(self.data))

    def pairs(self):
        entry = self.file.graph.tables(7)[0]
        at = entry.start(1)
        return 0x40 + at, struct.unpack_from("<ii", entry.data, at)

    def test_an_address_nobody_speaks_of(self):
        words = struct.unpack(f"<{len(self.commands) // 8}Q", self.commands)
        at = next(i for i, w in enumerate(words) if register(w) == 0x5038 and not value(w))
        self.change(self.commands, 8 * at, "<Q", words[at] | 0x1000 << 16)
        self.refused("whose that is")

    def test_an_address_of_a_command_that_takes_none(self):
        at, (_, command) = self.pairs()
        struct.pack_into("<i", self.data, at + 4, 0)
        self.refused("holds no address")

    def test_an_address_behind_everything(self):
        at, _ = self.pairs()
        struct.pack_into("<i", self.data, at, 0x7FFFFFFF)
        self.refused("behind the end")

    def test_an_address_before_its_tensor(self):
        at, _ = self.pairs()
        struct.pack_into("<i", self.data, at, -16)
        self.refused("offset of -16")

    def test_a_command_of_no_task(self):
        at, _ = self.pairs()
        struct.pack_into("<i", self.data, at + 4, struct.unpack_from("<I", self.tasks, 24)[0])
        self.refused("of no task")

    def test_a_task_of_another_node(self):
        self.change(self.tasks, 4, "<I", 2)
        self.refused("task 0 is of node 2")

    def test_a_task_outside_the_commands(self):
        self.change(self.tasks, 32, "<Q", len(self.commands))
        self.refused("outside the register commands")

    def test_a_task_that_starts_something_else(self):
        self.change(self.tasks, 8, "<I", 0xD)
        self.refused("starts something else")

    def test_a_wrong_interrupt(self):
        self.change(self.tasks, 12, "<I", 0xC00)
        self.refused("waits for 0xc00")

    def test_a_link_to_no_program(self):
        records = [struct.unpack_from("<8IQ", self.tasks, 40 * i) for i in range(len(self.tasks) // 40)]
        words = struct.unpack(f"<{len(self.commands) // 8}Q", self.commands)
        at = next(r[8] // 8 + r[6] for r in records if words[r[8] // 8 + r[6]])
        self.change(self.commands, 8 * at, "<Q", words[at] + (64 << 16))
        self.refused("where no task begins|says")


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    unittest.main()
