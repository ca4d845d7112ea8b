KEPT = {"defaults": {}, "switched": {}}
