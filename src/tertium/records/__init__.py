"""Records of models, files and jobs: manifests, file hashes, locks and fitted decisions."""
