"""For classes of custom operators, which the conversion alone uses."""
from typing import Any


def get_node_attr(node: Any, name: str) -> Any:
    """Value of an attribute of an ONNX node; None: it has none of the name. Needs the package onnx."""
    from onnx import helper
    return next((helper.get_attribute_value(attr) for attr in node.attribute if attr.name == name), None)
