-- wrk's script of bench_serving: posts the files NAME.0, NAME.1 and so on in turns.
-- Arguments: NAME, the number of files, and the bytes of JSON at each one's start. Prints one JSON object.

local requests, turn = {}, 0

function init(arguments)
  for i = 0, tonumber(arguments[2]) - 1 do
    local file = assert(io.open(arguments[1] .. "." .. i, "rb"))
    requests[i] = wrk.format("POST", nil, {["Inference-Header-Content-Length"] = arguments[3 + i]}, file:read("*a"))
    file:close()
  end
end

function request()
  turn = (turn + 1) % (#requests + 1)
  return requests[turn]
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format('{"requests": %d, "seconds": %f, "failed": %d, "p99_ms": %f}', summary.requests,
    summary.duration / 1e6, errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(99) / 1000))
end
