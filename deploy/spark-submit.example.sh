#!/usr/bin/env bash
# The check on a Spark cluster: copy to spark-submit.sh, choose one of the three, and name it in ROLLCALL_AUDIT_CHECK.
# The driver runs here (client mode), so that its exit code and verdict are this script's. Dumps and results must lie
# where all workers reach them: hdfs://, s3a:// or a shared folder.
set -euo pipefail

home=${ROLLCALL_AUDIT_HOME:-/opt/rollcall}
export PYSPARK_PYTHON=${PYSPARK_PYTHON:-python3} PYSPARK_DRIVER_PYTHON=${PYSPARK_DRIVER_PYTHON:-$home/.venv/bin/python}
common=(--name rollcall-audit --deploy-mode client --driver-memory 2g --executor-memory 4g)

case ${SPARK_CLUSTER:-standalone} in
standalone)
    exec spark-submit --master "${SPARK_MASTER:-spark://10.0.0.20:7077}" "${common[@]}" \
        --total-executor-cores 8 "$home/scripts/distro_check.py" "$@"
    ;;
yarn)
    # HADOOP_CONF_DIR names the cluster.
    exec spark-submit --master yarn "${common[@]}" --queue audit --num-executors 4 --executor-cores 2 \
        "$home/scripts/distro_check.py" "$@"
    ;;
k8s)
    # In client mode the executors connect to the driver: it needs an address that they reach.
    exec spark-submit --master "${SPARK_MASTER:-k8s://https://10.0.0.30:6443}" "${common[@]}" \
        --conf spark.executor.instances=4 --conf spark.executor.cores=2 \
        --conf spark.kubernetes.namespace=audit \
        --conf spark.kubernetes.container.image="${SPARK_IMAGE:?the image of the executors}" \
        --conf spark.driver.host="${SPARK_DRIVER_HOST:?this machine, as the executors see it}" \
        "$home/scripts/distro_check.py" "$@"
    ;;
*)
    printf 'SPARK_CLUSTER is standalone, yarn or k8s\n' >&2
    exit 2
    ;;
esac
