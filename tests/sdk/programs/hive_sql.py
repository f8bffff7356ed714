"""Spark's copy of Hive: its metastore on a port, and its readers of tables, which run the statements of stdin.

``hive_sql.py FOLDER PORT``: the metastore keeps its data in the folder.
"""

import json
import socket
import sys
import threading
import time

from pyspark.sql import SparkSession

folder, port = sys.argv[1], int(sys.argv[2])
settings = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
    # Hive's input formats and SerDe read the files, not Spark's own reader of Parquet.
    "spark.sql.hive.convertMetastoreParquet": "false",
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
    "spark.hadoop.hive.metastore.schema.verification": "false",
}
builder = SparkSession.builder.master("local[1]").enableHiveSupport()
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()


def serve():
    hadoop = spark._jsc.hadoopConfiguration()
    hive = spark._jvm.org.apache.hadoop.hive
    hive.metastore.HiveMetaStore.startMetaStore(port, None, hive.conf.HiveConf(hadoop, hadoop.getClass()))


def is_served():
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


spark.sql("SHOW TABLES").collect()  # the first use makes the metastore's own tables
threading.Thread(target=serve, daemon=True).start()
while not is_served():
    time.sleep(0.1)
print(json.dumps({"event": "ready", "client": "", "instance": ""}), flush=True)
for line in sys.stdin:
    call = json.loads(line)
    try:
        if call["op"] == "parse":
            spark._jvm.org.apache.hadoop.hive.ql.parse.ParseDriver().parse(call["statement"])
            answer = {"result": None}
        else:
            answer = {"result": [list(row) for row in spark.sql(call["statement"]).collect()]}
    except Exception as error:
        answer = {"error": str(error)[:1000]}
    print(json.dumps(answer), flush=True)
