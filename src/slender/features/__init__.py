"""From images to vectors: patches on a grid, their descriptors, and Fisher vectors."""
