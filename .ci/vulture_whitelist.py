"""Names that vulture takes for unused, and their users: read by vulture alone, never run.

An entry is a name, wherever it is defined. tests/test_tidy.py finds those that are no longer in the code.
"""

# gunicorn reads its configuration from app/gunicorn_conf.py and calls the hooks in it.
proc_name
worker_class
preload_app
max_requests
control_socket_disable
worker_tmp_dir
accesslog
errorlog
loglevel
logconfig_dict
on_starting
when_ready
post_worker_init
worker_exit
# ... and the formatter of log lines by its path in `logconfig_dict`.
LineFormatter
JsonFormatter
# logging calls it of a handler whose write failed.
handleError
shouldRollover

# gunicorn finds the worker by its path in `worker_class`, and calls it by the names and parameters of its base class.
LoopWorker
handle_quit
sig

# The counters of a node give each field of these statistics by its name.
_.unchanged

# httptools' parser calls the methods of the object that it was made for.
_.on_message_begin
_.on_url
_.on_header
_.on_headers_complete
_.on_body
_.on_message_complete

# asyncio calls a protocol; a transport of ours has the parameters of asyncio's.
_.connection_lost
_.eof_received
_.pause_writing
_.resume_writing
_.datagram_received
high
low

# PEP 3333: the parameter of start_response.
exc_info

# requests and urllib3 read these of a session, an adapter and a pool.
_.trust_env
_.get_redirect_target
_.pool_classes_by_scheme
_.ConnectionCls

# Flask and werkzeug read these of a response class, the map of routes, the application and its class of rules.
_.default_mimetype
_.merge_slashes
_.url_rule_class
_._compile_builder

# Other libraries: protobuf's options, jinja's filters, logging's switch of a logger, tqdm's setting.
_.map_entry
_.filters
_.disabled
monitor_interval

# The template of the audit's report reads these.
is_folded
without_verdict
first_seen
nights_open
meaning

# marshmallow reads the class Meta and the fields of a schema; a field without a reader is still checked.
Meta
fields_
responsible_only
aggregation
with_instances
has_instances
valid
enabled_only
only_status
show
check_exists
custom

# Kinds that are found by their value.
JAVA_SDK
TENGINE

# Switches of Nacos that are kept and shown, and have no effect here: written and read by `fields()`.
ad_weight_map
auto_change_health_check_enabled
distro_enabled
enable_standalone
incremental_list
server_status_synchronization_period_millis
service_status_synchronization_period_millis
disable_add_i_p
send_beat_only
distro_server_expired_millis
enable_authentication
health_check_white_list

# Counters: `asdict` puts them into the metrics.
_.sync_sent
_.sync_delivered
_.sync_failed
_.sync_keys
_.sync_dropped
_.sync_deltas
_.received_keys
_.received_refused
_.received_merged
_.received_failed
_.received_deltas
_.deltas_wanted_whole
_.verify_sent
_.verify_failed
_.verify_wanted
_.verify_received
_.contents_differed
_.query_keys
_.served_keys
_.forgotten
_.inbox_dropped
_.pauses
_.overruns
_.events_slow
_.events_failed
_.connections_refused
_.config_refused
_.requests_refused
_.pool_full
_.beats_collected
_.loop_late
_.forward_answered
_.forward_held
_.forward_failed
_.forward_busy
_.forward_unseen
_.forward_batches
_.too_late
_.calls_lost
_.keys_unfit
_.list_bytes
_.tls_handshakes
_.tls_handshakes_failed
_.tls_handshakes_cut
_.tls_plain_refused
_.tls_plain_taken
_.tls_plain_calls
_.tls_members_refused
_.tls_reloads
_.tls_reloads_failed
_.tls_certificate_ends_s
_.wall_clock_steps
_.wall_clock_step_ms
_.descriptors_used_up
_.member_lists_failed
_.member_lists_taken
_.member_lookup_failing
_.members_held
_.names_unresolved
_.name_lookups_failed
_.name_addresses_changed

# Counters that are in no metric, and that tests read.
_.overrun
_.timed_out

# Hooks of pytest, in scripts/mutation/session.py.
_.pytest_configure
_.pytest_runtestloop

# Whoever has questions to the results of the audit calls it from a notebook or a job of theirs; the tests do, too.
read_table

# Clients that tests/cluster/test_sockets.py has, in scripts/chaos/slow_clients.py.
slow_chunks
silent_body
sipped
after_refusal

# An HTTP server of the standard library calls them, in scripts/chaos/verdicts.py.
_.do_POST
_.log_message

# A rule that rows declare; users are told apart from members by it.
members_too
_.pages_refused  # shown by GET /operator/metrics
_.held_back  # of UDP pushes
_.over_budget

# Counters of logins and refusals, read as a whole; fields of schemas, which marshmallow finds.
logins
logins_wrong
logins_waited
logins_throttled
access_unknown
access_invalid
access_expired
access_denied
hashes_computed
hashes_refused
username
# Of ssl.SSLContext, of requests and of urllib3, which read or call them.
_.num_tickets
_.is_verified
_.cert_verify
_.refused_missing  # counters of calls that are members' by their own word: read as a whole, by asdict
_.refused_value
_.refused_signature
_.refused_clock
_.proved
_.refused_replayed
_.refused_body
_.refused_sender
_.refused_address
# Counters that only asdict reads.
_.memory_services
_.memory_instances
# Counters of fuzzy watches, read as a whole.
_.patterns_over
_.matches_over
# Counters of DNS, read as a whole.
_.queries
_.malformed
_.truncated
_.connections_closed
# Of the simulation: it works by itself once it is made.
_.beat_sender

# The decoder of hpack reads it.
_.header_table

# html.parser calls it, in scripts/docs/site.py.
_.handle_starttag
# Of app.testing: called in the tests of others.
_.ahead_s
_.grpc_port
_.login
_.restart
_.rollcall_cluster
_.wait_for_instances
_.wait_for_pushes
# A template of the console shows them.
to_send
to_fetch
# marshmallow finds the fields of a schema by their names, which are those of parameters.
enable
dom
keyword
# SQLite's module reads it.
_.text_factory
# Benchmarks print all fields of their rows.
kb
first_paint_ms
contentful_ms
member_ms
# PEP 517 names this parameter of a build backend.
metadata_directory

# Jinja calls these of an extension, by the names and parameters of its base class.
filter_stream
_make_node
num_called_num

# Notebooks call it: docs/audit-dumps.md.
read_dump
