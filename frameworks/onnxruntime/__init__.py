"""ONNX Runtime: models from files, and single operators of its CPU provider."""
