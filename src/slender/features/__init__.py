"""From images to vectors: Fisher vectors of patches, or a network in an ONNX file."""
