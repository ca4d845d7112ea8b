"""Whether a manifest, read from standard input, is a TrainJob. If not: says why, and exits with 1.

Run:  .venv-cluster/bin/python trainjob.py < trainjob.yaml
"""

import sys

import yaml
from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob
from pydantic import ValidationError

given = yaml.safe_load(sys.stdin)
try:
    understood = TrainerV1alpha1TrainJob.from_dict(given).to_dict()
except ValidationError as error:
    sys.exit(f"a wrong type: {error}")
if understood != given:
    # A key that it does not know is dropped without a word.
    sys.exit(f"of {given['spec']} it understands {understood['spec']}")
print(f"a TrainJob called {given['metadata']['name']}")
