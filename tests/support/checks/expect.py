"""Checks outside of test cases, in unittest's words, which show the values: EXPECT.assertEqual(got, expected)."""
import unittest

EXPECT = unittest.TestCase()
EXPECT.maxDiff = None
