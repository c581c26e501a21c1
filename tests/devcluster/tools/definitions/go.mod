module copyrator.dev/devcluster/definitions

go 1.26.0
