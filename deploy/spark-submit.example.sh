#!/usr/bin/env bash
# The check on a Spark cluster: name this file, or a copy of it, in ROLLCALL_AUDIT_CHECK, and set what differs in the
# variables below. The driver runs here (client mode), so that its exit code and verdict are this script's. Dumps and
# results must lie where driver and executors reach them, to read and to write: hdfs://, s3a:// or a shared folder.
#
#   SPARK_CLUSTER     standalone, yarn or k8s
#   SPARK_MASTER      its URL (standalone, k8s); of YARN, HADOOP_CONF_DIR names the cluster
#   SPARK_SUBMIT      the spark-submit to run: that of the environment, else the one on PATH; of the cluster's release
#   AUDIT_DRIVER_MEMORY, AUDIT_EXECUTOR_MEMORY, AUDIT_EXECUTOR_CORES, AUDIT_CORES
#   SPARK_IMAGE, SPARK_DRIVER_HOST    for k8s
#
# Python is needed here only, where the package is: executors run no Python, and nothing is shipped to them. Java, 17 or
# newer, is needed everywhere, here in JAVA_HOME or on PATH.
set -euo pipefail

home=${ROLLCALL_AUDIT_HOME:-/opt/rollcall}
python=${PYSPARK_DRIVER_PYTHON:-$home/.venv/bin/python}
export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$python} PYSPARK_DRIVER_PYTHON=$python
submit=${SPARK_SUBMIT:-$home/.venv/bin/spark-submit}
[ -x "$submit" ] || submit=spark-submit
# The program to submit and the settings of its log: of a checkout, or of the installed package and `rollcall files`.
program=$home/scripts/distro_check.py log=$home/app/tools/audit/check/log4j2.properties
[ -f "$program" ] || program=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/distro_check.py
[ -f "$log" ] || log=$("$python" -c 'import importlib.resources as r
print(r.files("rollcall_registry") / "tools/audit/check/log4j2.properties")')

# What a run on this machine sets by itself (app/tools/audit/check/session.py). The driver's log is errors only. Executors need
# no file for theirs, which lies in the folder of their worker: warnings, unless the cluster's log4j2.properties says
# another. (At ERROR, Spark takes the log for one that nobody set, and logs everything.)
java_options="-XX:-DontCompileHugeMethods"
driver_log="-Dlog4j2.configurationFile=file://$log"
executor_log="-Dlog4j2.level=WARN"

# One core and 1 GB: a worker offers the memory of its machine less 1 GB, and an executor that fits no worker is waited
# for until the time-out. Larger executors share more: 4 cores with 4g, on workers that offer that much.
cores=${AUDIT_EXECUTOR_CORES:-1} all_cores=${AUDIT_CORES:-8}
common=(
    --name rollcall-audit --deploy-mode client
    --driver-memory "${AUDIT_DRIVER_MEMORY:-2g}" --driver-java-options "$java_options $driver_log"
    --executor-memory "${AUDIT_EXECUTOR_MEMORY:-1g}" --executor-cores "$cores"
    --conf "spark.executor.extraJavaOptions=$java_options $executor_log"
    --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false
    --conf spark.python.sql.dataFrameDebugging.enabled=false
)

case ${SPARK_CLUSTER:-standalone} in
standalone)
    exec "$submit" --master "${SPARK_MASTER:-spark://10.0.0.20:7077}" "${common[@]}" \
        --total-executor-cores "$all_cores" "$program" "$@"
    ;;
yarn)
    exec "$submit" --master yarn "${common[@]}" --queue "${AUDIT_QUEUE:-default}" \
        --num-executors "$(((all_cores + cores - 1) / cores))" "$program" "$@"
    ;;
k8s)
    # In client mode the executors connect to the driver: it needs an address that they reach.
    exec "$submit" --master "${SPARK_MASTER:-k8s://https://10.0.0.30:6443}" "${common[@]}" \
        --conf spark.executor.instances="$(((all_cores + cores - 1) / cores))" \
        --conf spark.kubernetes.namespace="${AUDIT_NAMESPACE:-audit}" \
        --conf spark.kubernetes.container.image="${SPARK_IMAGE:?the image of the executors}" \
        --conf spark.driver.host="${SPARK_DRIVER_HOST:?this machine, as the executors see it}" \
        "$program" "$@"
    ;;
*)
    printf 'SPARK_CLUSTER is standalone, yarn or k8s\n' >&2
    exit 2
    ;;
esac
