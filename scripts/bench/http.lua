-- What wrk sends for http.py: one mode a run, one line of JSON at its end.
--   wrk -t1 -c32 -d3s -s http.lua http://127.0.0.1:8848 -- MODE THREADS SERVICES HOSTS [gzip] [java] [check] [first=N] [token=TOKEN]
--   churn       rolling deploys: each request registers a new instance, or removes the oldest of those that came so
--   update      the instances that are there get another weight and other metadata, both drawn at random
--   register    the same instances again and again
--   change      as above, each time with other metadata
--   patch       one key of the metadata by PATCH, batch by the call that changes several instances, here one
--   beat        light beats
--   full        full beats, the JSON in a form body, as the Java library sends its first one
--   full-query  full beats, the JSON in the query, as the Python and Node libraries send theirs
--   list        one service after the other
--   mixed       80 % light beats, 15 % lists, 5 % churn
--   gzip        say that answers may be compressed
--   java        all headers of the Java library, the number that it gives every request among them
--   token       sent with every request, as the parameter that the Java library gives it
--   check       look at every answer and count those that are not what they should be
--   first       the number of the first new instance of churn: another one in each run, so that all are new
-- Each thread works on instances of its own: the k-th instance of all belongs to thread k modulo THREADS.

local API = "/nacos/v1/ns/instance"
local AGENT = "Nacos-Java-Client:v1.4.1"
local FORM = "application/x-www-form-urlencoded;charset=UTF-8"
local METADATA = '{"zone":"a"}'
local CHANGING = { change = true, update = true, patch = true, batch = true }
-- Stand where a number comes that is another one in every request, and where one is drawn.
local COUNT, DRAWN = "COUNTED", "DRAWN"
local VERSIONS = { "blue", "green", "canary", "v1.2.3", "v1.2.4", "gray", "zone-a", "zone-bb" }
local token, first_new = nil, 0

local threads_seen = 0
local threads = {}

function setup(thread)
  thread:set("id", threads_seen)
  threads_seen = threads_seen + 1
  threads[threads_seen] = thread
end

local function encoded(text)
  return (text:gsub("[^%w%-%._%*]", function(byte) return string.format("%%%02X", byte:byte()) end))
end

-- The same names and addresses as in load.py, which registers them beforehand.
local function service_of(mode, hosts, number)
  return (CHANGING[mode] and "changed-" or "bench-") .. hosts .. "-" .. number
end

local function ip_of(service, host)
  return "10." .. service % 250 .. "." .. math.floor(host / 250) .. "." .. host % 250 + 1
end

local function headers_of(options, form)
  local headers = { ["User-Agent"] = AGENT, ["Client-Version"] = "1.4.1" }
  if options.java then
    headers["Request-Module"] = "Naming"
    headers["RequestId"] = "7d9b63a1-5d2c-4b06-9c1e-" .. COUNT
    headers["Accept-Charset"] = "UTF-8"
    headers["Accept"] = "text/html, image/gif, image/jpeg, */*; q=0.2"
  end
  if form or options.java then headers["Content-Type"] = FORM end
  if options.gzip then headers["Accept-Encoding"] = "gzip" end
  return headers
end

local function query_of(...)
  local parts, pairs_given = {}, { ... }
  for i = 1, #pairs_given, 2 do
    parts[#parts + 1] = pairs_given[i] .. "=" .. encoded(pairs_given[i + 1])
  end
  if token then parts[#parts + 1] = "accessToken=" .. encoded(token) end
  return table.concat(parts, "&")
end

-- Of new instances: apart from those of `ip_of`, and enough for every request of every run.
local function new_ip_of(number)
  return 11 + math.floor(number / 4000000) % 200 .. "." .. math.floor(number / 62500) % 64 .. "."
    .. math.floor(number / 250) % 250 .. "." .. number % 250 + 1
end

local function register(name, ip, options, metadata)
  local query = query_of("app", "unknown", "serviceName", name, "groupName", "DEFAULT_GROUP", "namespaceId", "public",
    "clusterName", "DEFAULT", "ip", ip, "port", "8080", "weight", "1.0", "enable", "true", "healthy", "true",
    "ephemeral", "true", "metadata", metadata or METADATA)
  return wrk.format("POST", API .. "?" .. query, headers_of(options))
end

local function remove(name, ip, options)
  local query = query_of("app", "unknown", "serviceName", name, "namespaceId", "public", "clusterName", "DEFAULT", "ip", ip,
    "port", "8080", "ephemeral", "true")
  return wrk.format("DELETE", API .. "?" .. query, headers_of(options))
end

local function update(name, ip, options)
  local query = query_of("app", "unknown", "serviceName", name, "namespaceId", "public", "clusterName", "DEFAULT", "ip", ip,
    "port", "8080", "weight", DRAWN, "enabled", "true", "healthy", "true", "ephemeral", "true", "metadata",
    '{"zone":"a","' .. VERSIONS[math.random(#VERSIONS)] .. '":"' .. COUNT .. '"}')
  return wrk.format("PUT", API .. "?" .. query, headers_of(options))
end

-- Returns what makes the next request of a rolling deploy: registers until each service has its instances, and then in
-- turn a new instance and the removal of the oldest one that this thread brought.
local function churn(services, hosts, thread, thread_count, options)
  -- wrk asks its first thread for a request that it never sends.
  local live, come, gone, is_removal = math.ceil(services * hosts / thread_count), thread == 0 and -1 or 0, 0, false
  local function of(number)
    local k = first_new + number * thread_count + thread
    return "DEFAULT_GROUP@@churned-" .. hosts .. "-" .. k % services, new_ip_of(k), k
  end
  return function()
    is_removal = not is_removal and come >= live
    if is_removal then
      gone = gone + 1
      local name, ip = of(gone - 1)
      return remove(name, ip, options)
    end
    come = come + 1
    local name, ip, k = of(come - 1)
    return register(name, ip, options, '{"version":"' .. VERSIONS[k % #VERSIONS + 1] .. '","start":"' .. k .. '"}')
  end
end

local OTHER_METADATA = '{"zone":"a","change":"' .. COUNT .. '"}'

local function patch(name, ip, options)
  local query = query_of("serviceName", name, "namespaceId", "public", "clusterName", "DEFAULT", "ip", ip, "port", "8080",
    "metadata", OTHER_METADATA)
  return wrk.format("PATCH", API .. "?" .. query, headers_of(options))
end

local function batch(name, ip, options)
  local named = '[{"ip":"' .. ip .. '","port":8080,"clusterName":"DEFAULT","ephemeral":true}]'
  local query = query_of("serviceName", name, "namespaceId", "public", "instances", named, "metadata", OTHER_METADATA)
  return wrk.format("PUT", API .. "/metadata/batch?" .. query, headers_of(options))
end

local function light_beat_query(name, ip)
  return query_of("app", "unknown", "serviceName", name, "namespaceId", "public", "clusterName", "DEFAULT", "ip", ip,
    "port", "8080")
end

local function beat(name, ip, options)
  return wrk.format("PUT", API .. "/beat?" .. light_beat_query(name, ip), headers_of(options))
end

local function full_beat(name, ip, options, in_query)
  local json = '{"port":8080,"ip":"' .. ip .. '","weight":1.0,"serviceName":"' .. name .. '","cluster":"DEFAULT",'
    .. '"metadata":' .. METADATA .. ',"scheduled":false,"period":5000,"stopped":false}'
  local target = API .. "/beat?" .. light_beat_query(name, ip)
  if in_query then return wrk.format("PUT", target .. "&beat=" .. encoded(json), headers_of(options)) end
  return wrk.format("PUT", target, headers_of(options, true), "beat=" .. encoded(json) .. "&")
end

local function list(name, options)
  local query = query_of("app", "unknown", "serviceName", name, "namespaceId", "public", "clusters", "", "udpPort",
    "0", "clientIP", "127.0.0.1", "healthyOnly", "false")
  return wrk.format("GET", API .. "/list?" .. query, headers_of(options))
end

local MADE = {
  register = register,
  change = function(name, ip, options) return register(name, ip, options, OTHER_METADATA) end,
  update = update,
  patch = patch,
  batch = batch,
  beat = beat,
  full = full_beat,
  ["full-query"] = function(name, ip, options) return full_beat(name, ip, options, true) end,
  list = function(name, _, options) return list(name, options) end,
}

-- All requests of one kind that this thread sends, made once: the client's cores are the server's too.
local function requests_of(kind, mode, services, hosts, thread, thread_count, options)
  local made = {}
  for k = thread, services * (kind == "list" and 1 or hosts) - 1, thread_count do
    local name = "DEFAULT_GROUP@@" .. service_of(mode, hosts, k % services)
    local ip = ip_of(k % services, math.floor(k / services))
    made[#made + 1] = MADE[kind](name, ip, options)
  end
  return made
end

local function turn_of(made)
  local at = 0
  return function()
    at = at % #made + 1
    return made[at]
  end
end

local function count_in(text, part)
  local found, from = 0, 1
  while true do
    local _, last = text:find(part, from, true)
    if not last then return found end
    found, from = found + 1, last + 1
  end
end

local function is_right(status, headers, body, hosts)
  if status ~= 200 then return false end
  if body == "ok" or body:find('{"updated":["', 1, true) or body:find('"code":10200', 1, true) then return true end
  for name, value in pairs(headers) do
    if name:lower() == "content-encoding" and value:lower() == "gzip" then return body:sub(1, 2) == "\31\139" end
  end
  return count_in(body, '"instanceId"') == hosts
end

function init(args)
  local mode, thread_count, services, hosts = args[1], tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  local options = {}
  for i = 5, #args do
    options[args[i]] = true
    token = args[i]:match("^token=(.+)$") or token
    first_new = tonumber(args[i]:match("^first=(%d+)$") or first_new)
  end
  math.randomseed(id + 7)
  local kinds = mode == "mixed" and { "beat", "list", "churn" } or { mode }
  local turns = {}
  for _, kind in ipairs(kinds) do
    turns[kind] = kind == "churn" and churn(services, hosts, id, thread_count, options)
      or turn_of(requests_of(kind, mode, services, hosts, id, thread_count, options))
  end
  local next_request = turns[mode]
  if mode == "mixed" then
    next_request = function()
      local drawn = math.random(100)
      return turns[drawn <= 80 and "beat" or drawn <= 95 and "list" or "churn"]()
    end
  end
  if CHANGING[mode] or options.java then
    local plain, sent = next_request, 0
    next_request = function()
      sent = sent + 1
      return (plain():gsub(COUNT, string.format("%03x%09x", id, sent)):gsub(DRAWN, math.random(100)))
    end
  end
  request = next_request
  wrong = 0
  if options.check then
    response = function(status, headers, body)
      if not is_right(status, headers, body, hosts) then wrong = wrong + 1 end
    end
  end
end

function done(summary, latency, requests)
  local wrong_of_all, errors = 0, summary.errors
  for _, thread in ipairs(threads) do wrong_of_all = wrong_of_all + thread:get("wrong") end
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"bytes":%d,"p50_ms":%.3f,"p99_ms":%.3f,"max_ms":%.3f,"refused":%d,"errors":%d,"wrong":%d}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, errors.status, errors.connect + errors.read + errors.write + errors.timeout, wrong_of_all))
end
