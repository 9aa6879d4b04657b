-- Builds what scripts see. Runs once for each interpreter, with the functions of the server in `native`.
--
-- A script runs as a coroutine. To call a command it yields the arguments, and is resumed with the reply and whether
-- that is an error. What each command passes through does as little as it can: no text is made or compared. Lua 5.1
-- cannot yield through its own pcall, so that scripts get one that passes on what its function yields.
local native = ...
local yield, create, resume = coroutine.yield, coroutine.create, coroutine.resume
local error, type, tostring, select, next, original_pcall = error, type, tostring, select, next, pcall
local setmetatable, getmetatable, rawset, rawget, setfenv = setmetatable, getmetatable, rawset, rawget, setfenv

local READ_ONLY = "Attempt to modify a readonly table"
-- The table behind each view. No function that scripts see returns one: they could change it.
local guarded = {}
-- The views of the tables that scripts share.
local views = {}
-- What a protected function or a coroutine returns first, and never yields.
local ended = {}
-- What a coroutine of the script yields first. What else is yielded is a command.
local handed = {}
-- The coroutine of the script that runs, and how many protected functions run in it.
local current, depth = nil, 0

-- A view of a table that cannot be changed.
local function guard(table)
  local view = {}
  guarded[view] = table
  views[#views + 1] = view
  return setmetatable(view, {
    __index = table,
    __newindex = function() error(READ_ONLY, 2) end,
    __metatable = false,
  })
end

-- Functions of the library `table` write past the metatable of a view. The next script sees nothing of that.
local function empty_views()
  for number = 1, #views do
    local view = views[number]
    for key in next, view do rawset(view, key, nil) end
  end
end

-- Where the script is, as errors say it; level 1 is who called this function.
local function place(level)
  local _, text = original_pcall(error, "", level + 2)
  return text
end

-- Raises an error as Lua's function `error` does. A script that calls a function behind `return` is forgotten by then:
-- its line is "?", which the reply replaces if the script has only one.
local function raise(why, level)
  local where = place(level + 1)
  error((where == "" and "user_script:?: " or where) .. why, 0)
end

-- An error without a place that scripts know nothing of. The place "?" stays for the reply.
local gsub = string.gsub
local function without_place(is_reply, why, ...)
  if type(why) == "string" then
    why = gsub(why, "^prelude:%d+: ", "")
    if not is_reply then why = gsub(why, "^user_script:%?: ", "") end
  end
  return why, ...
end

-- Runs `body`, and passes on what it yields. An error that is to end the script is no result.
local function protected(handler, is_plain, body, ...)
  local thread = create(function(...) return ended, body(...) end)
  local depth_before = depth
  depth = depth + 1
  local function go(is_well, ...)
    if not is_well then
      depth = depth_before
      if native.is_over() then error((...), 0) end
      if handler then return false, handler(without_place(false, ...)) end
      -- As in Redis, what a command raised is a text for whom it was kept from.
      if is_plain and type(...) == "table" and (...).err then return false, (...).err end
      return false, without_place(not is_plain, ...)
    end
    if (...) == ended then
      depth = depth_before
      return true, select(2, ...)
    end
    return go(resume(thread, yield(...)))
  end
  return go(resume(thread, ...))
end

-- Coroutines of scripts. A command that one calls is passed on to who resumed it, up to the server. As in Lua 5.1 none
-- yields through a protected function.
local coroutines = {}
local status = coroutine.status

local function check_thread(thread, name)
  if type(thread) ~= "thread" then
    raise("bad argument #1 to '" .. name .. "' (coroutine expected)", 3)
  end
end

local function create_for(name, body)
  if type(body) ~= "function" then
    raise("bad argument #1 to '" .. name .. "' (Lua function expected)", 3)
  end
  return create(function(...) return ended, body(...) end)
end

local function back(before, depth_before, ...)
  current, depth = before, depth_before
  return ...
end

-- What came of resuming a coroutine. An error that is to end the script is no result.
local function came(thread, before, depth_before, is_well, ...)
  if not is_well then
    back(before, depth_before)
    if native.is_over() then error((...), 0) end
    return false, without_place(true, ...)
  end
  if (...) == ended or (...) == handed then
    return back(before, depth_before, true, select(2, ...))
  end
  return came(thread, before, depth_before, resume(thread, yield(...)))
end

local function resumed(thread, ...)
  local is = thread == current and "running" or status(thread)
  if is ~= "suspended" then return false, "cannot resume " .. is .. " coroutine" end
  local before, depth_before = current, depth
  current, depth = thread, 0
  return came(thread, before, depth_before, resume(thread, ...))
end

function coroutines.create(body) return create_for("create", body) end

function coroutines.resume(thread, ...)
  check_thread(thread, "resume")
  return resumed(thread, ...)
end

function coroutines.yield(...)
  if not current or depth > 0 then error("attempt to yield across metamethod/C-call boundary", 0) end
  return yield(handed, ...)
end

function coroutines.status(thread)
  check_thread(thread, "status")
  return thread == current and "running" or status(thread)
end

function coroutines.running() return current end

local function wrapped(is_well, ...)
  if is_well then return ... end
  local why = ...
  -- Between this function and who called the coroutine is one whose call this is the last of.
  if type(why) == "string" then why = place(3) .. why end
  error(why, 0)
end

function coroutines.wrap(body)
  local thread = create_for("wrap", body)
  return function(...) return wrapped(resumed(thread, ...)) end
end

-- Lua's functions for patterns, over one that looks at the time: `native.find(text, pattern, from, way)` returns where
-- the first match begins and ends, and its captures. The ways are those of `pattern.rs`.
local originals = { find = string.find, match = string.match, gmatch = string.gmatch, gsub = string.gsub }
local sub, concat, floor, ceil = string.sub, table.concat, math.floor, math.ceil

-- What Lua's own function says of arguments that are none.
local function refuse(name, ...)
  local _, why = original_pcall(originals[name], ...)
  raise((originals.gsub(why, "'%?'", "'" .. name .. "'", 1)), 3)
end

local function is_text(value)
  return type(value) == "string" or type(value) == "number"
end

-- What follows the place of a match, unless it is a fault of the pattern or the end of the script's time.
local function found(level, start, ...)
  if start == false then raise(..., level + 1) end
  return start, ...
end

-- Where a lookup begins; nil if `init` is no number.
local function beginning(text, init)
  if init == nil then return 1 end
  init = tonumber(init)
  if not init then return nil end
  if init ~= init then return 1 end
  init = init < 0 and ceil(init) + #text + 1 or floor(init)
  return init < 1 and 1 or init > #text and #text + 1 or init
end

function string.find(...)
  local text, pattern, init, is_plain = ...
  local from = is_text(text) and is_text(pattern) and beginning(text .. "", init)
  if not from then return refuse("find", ...) end
  return found(2, native.find(text .. "", pattern .. "", from, is_plain and "plain" or "find"))
end

local function captures(text, start, stop, ...)
  if not start then return nil end
  if select("#", ...) == 0 then return sub(text, start, stop) end
  return ...
end

function string.match(...)
  local text, pattern, init = ...
  local from = is_text(text) and is_text(pattern) and beginning(text .. "", init)
  if not from then return refuse("match", ...) end
  text = text .. ""
  return captures(text, found(2, native.find(text, pattern .. "", from, "match")))
end

function string.gmatch(...)
  local text, pattern = ...
  if not (is_text(text) and is_text(pattern)) then return refuse("gmatch", ...) end
  text, pattern = text .. "", pattern .. ""
  local from = 1
  local function go(start, stop, ...)
    if not start then
      from = #text + 2
      return nil
    end
    from = stop < start and start + 1 or stop + 1
    return captures(text, start, stop, ...)
  end
  return function()
    if from > #text + 1 then return nil end
    return go(found(2, native.find(text, pattern, from, "gmatch")))
  end
end

-- The older name, which Lua 5.1 still has.
string.gfind = string.gmatch

-- What stands for a match in a replacement that is a text.
local function filled(with, text, start, stop, ...)
  local parts, at = {}, 1
  while true do
    local percent = originals.find(with, "%", at, true)
    if not percent then break end
    local next = sub(with, percent + 1, percent + 1)
    local digit = next ~= "" and originals.find("0123456789", next, 1, true)
    -- Behind the last byte Lua 5.1 finds the zero that ends its texts.
    local part = next == "" and "\0" or next
    if digit == 1 or digit == 2 and select("#", ...) == 0 then
      part = sub(text, start, stop)
    elseif digit then
      if digit - 1 > select("#", ...) then raise("invalid capture index", 5) end
      part = (select(digit - 1, ...))
    end
    parts[#parts + 1] = sub(with, at, percent - 1)
    parts[#parts + 1] = part
    at = percent + 2
  end
  parts[#parts + 1] = sub(with, at)
  return concat(parts)
end

function string.gsub(...)
  local text, pattern, with, most = ...
  local kind = type(with)
  local is_kind = is_text(with) or kind == "table" or kind == "function"
  if not (is_text(text) and is_text(pattern) and is_kind and (most == nil or tonumber(most))) then
    return refuse("gsub", ...)
  end
  text, pattern = text .. "", pattern .. ""
  most = most and floor(tonumber(most)) or #text + 1
  local parts, at, count = {}, 1, 0
  local is_anchored = sub(pattern, 1, 1) == "^"
  local function replaced(start, stop, ...)
    if kind == "table" or kind == "function" then
      local by
      if kind == "function" then by = with(captures(text, start, stop, ...)) else by = with[(captures(text, start, stop, ...))] end
      if not by then return sub(text, start, stop) end
      if not is_text(by) then raise("invalid replacement value (a " .. type(by) .. ")", 4) end
      return by
    end
    return filled(with .. "", text, start, stop, ...)
  end
  -- Replaces one match, and says where the next lookup begins; nil behind the last.
  local function go(start, stop, ...)
    if not start then return nil end
    count = count + 1
    parts[#parts + 1] = sub(text, at, start - 1)
    parts[#parts + 1] = replaced(start, stop, ...)
    at = stop + 1
    if stop >= start then return at end
    parts[#parts + 1] = sub(text, at, at)
    at = at + 1
    return at
  end
  local from = 1
  while count < most and from <= #text + 1 do
    from = go(found(2, native.find(text, pattern, from, "match")))
    if not from or is_anchored then break end
  end
  parts[#parts + 1] = sub(text, at)
  return concat(parts), count
end

-- Functions that may do much in one instruction look at the time before or behind it. With arguments that are none they
-- do what Lua's own do.
local MUCH = 256 * 1024
local look = native.look

for _, name in ipairs { "upper", "lower", "reverse" } do
  local original = string[name]
  originals[name] = original
  string[name] = function(text)
    if type(text) ~= "string" then return is_text(text) and original(text) or refuse(name, text) end
    if #text > MUCH then look() end
    return original(text)
  end
end

originals.rep = string.rep
function string.rep(text, count)
  local times = tonumber(count)
  if not (is_text(text) and times) then return refuse("rep", text, count) end
  -- Lua would take as many steps as it is to repeat nothing.
  if text == "" then return "" end
  if #(text .. "") * times > MUCH then look() end
  return originals.rep(text, times)
end

-- What a function returned, or its error at the place of who called it.
local function passed(name, is_well, text)
  if not is_well then raise((originals.gsub(text, "'%?'", "'" .. name .. "'", 1)), 3) end
  if #text > MUCH then look() end
  return text
end

originals.format = string.format
function string.format(...)
  return passed("format", original_pcall(originals.format, ...))
end

function table.concat(...)
  local list = ...
  if type(list) == "table" and #list > MUCH then look() end
  return passed("concat", original_pcall(concat, ...))
end

-- A comparison that is written in Lua is interrupted by the look at the time.
local LARGEST_LIST_TO_SORT_AT_ONCE = 4096
local function is_less(a, b) return a < b end

originals.foreach = table.foreach
function table.foreach(...)
  local list, body = ...
  if type(list) ~= "table" or type(body) ~= "function" then return refuse("foreach", ...) end
  for key, value in next, guarded[list] or list do
    local result = body(key, value)
    if result ~= nil then return result end
  end
end

originals.sort = table.sort
function table.sort(list, before)
  if type(list) ~= "table" or before ~= nil and type(before) ~= "function" then return refuse("sort", list, before) end
  local most = type(list[1]) == "number" and LARGEST_LIST_TO_SORT_AT_ONCE or 64
  if before == nil and #list > most then before = is_less end
  return originals.sort(list, before)
end

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = native.version, REDIS_VERSION_NUM = 0,
}
for part in originals.gmatch(native.version, "%d+") do
  redis.REDIS_VERSION_NUM = redis.REDIS_VERSION_NUM * 256 + part
end

-- Raises an error as a command does. Level 1 is who called this function.
local function fault(text, level)
  error({ err = text, place = place(level + 1) }, 0)
end

function redis.call(...)
  local reply, is_error = yield(...)
  if is_error then
    reply.place = place(2)
    error(reply, 0)
  end
  return reply
end

function redis.pcall(...)
  return (yield(...))
end

-- Whether the user may run a command.
function redis.acl_check_cmd(...)
  local may, is_error = yield(native.asks, ...)
  if is_error then fault(may.err, 2) end
  return may
end

-- The only argument, if it is a text. What else was passed is told in the reply, and not raised.
local function only_text(...)
  return select("#", ...) == 1 and type(...) == "string" and (...)
end
local byte, is_line_end = string.byte, { [10] = true, [13] = true }
local function wrong_arguments() return { err = "ERR wrong number or type of arguments" } end

function redis.error_reply(...)
  local text = only_text(...)
  if not text then return wrong_arguments() end
  if sub(text, 1, 1) == "-" then text = sub(text, 2) end
  -- One byte at a time: a pattern would try every run of line ends in the text.
  local first, last = originals.find(text, "[^\r\n]") or #text + 1, #text
  while last >= first and is_line_end[byte(text, last)] do last = last - 1 end
  text = sub(text, first, last)
  if not originals.find(text, " ", 1, true) then text = "ERR " .. text end
  return { err = text }
end

function redis.status_reply(...)
  local text = only_text(...)
  if not text then return wrong_arguments() end
  return { ok = text }
end

function redis.sha1hex(...)
  if select("#", ...) ~= 1 then fault("ERR wrong number of arguments", 2) end
  return native.sha1hex(is_text(...) and (...) .. "" or "")
end

-- Nothing is replicated, and what a script logs has no reader here: the arguments are checked.
function redis.log(...)
  if select("#", ...) < 2 then fault("ERR redis.log() requires two arguments or more.", 2) end
  local level = is_text(...) and tonumber((...))
  if not level then fault("ERR First argument must be a number (log level).", 2) end
  if level < 0 or level >= 4 then fault("ERR Invalid debug level.", 2) end
end
function redis.replicate_commands() return true end
function redis.set_repl(...)
  if select("#", ...) ~= 1 then fault("ERR redis.set_repl() requires two arguments.", 2) end
  local flags = is_text(...) and tonumber((...)) or 0
  if flags < 0 or flags >= 4 then
    fault("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.", 2)
  end
end
function redis.setresp(...)
  if select("#", ...) ~= 1 then fault("ERR redis.setresp() requires one argument.", 2) end
  local version = floor(is_text(...) and tonumber((...)) or 0)
  if version ~= 2 and version ~= 3 then fault("ERR RESP version must be 2 or 3.", 2) end
  native.setresp(version)
end

-- There is no debugger.
function redis.breakpoint() return false end
function redis.debug() end

-- What the collector of garbage is asked to do it does at once; how it works is not changed.
local collect = collectgarbage
local settings = { stop = 0, restart = 0, setpause = 200, setstepmul = 200 }
local function garbage(...)
  local option = ...
  if option == nil then option = "collect" end
  if not is_text(option) then
    raise("bad argument #1 to 'collectgarbage' (string expected, got " .. type(option) .. ")", 2)
  end
  if option == "count" then return collect("count") end
  if settings[option] then return settings[option] end
  if option ~= "collect" and option ~= "step" then
    raise("bad argument #1 to 'collectgarbage' (invalid option '" .. option .. "')", 2)
  end
  look()
  return collect(option)
end

-- The library `cjson`, over functions that are given the settings. Those of the one that all scripts see are set back
-- before each script.
local STANDARD = {
  encode_depth = 1000, decode_depth = 1000, digits = 14, converts_sparse = "off", ratio = 2, safe = 10,
  keeps_buffer = "on", encode_invalid = "off", decode_invalid = "on",
}
local INTEGER_MAX = 2147483647

local function settled(is_well, value)
  if not is_well then raise(value, 3) end
  return value
end

local function new_cjson()
  local settings, is_changed = {}, false
  local function set_back()
    is_changed = false
    for name, value in pairs(STANDARD) do settings[name] = value end
  end
  set_back()

  -- `level` is that of who called the function `name`.
  local function refuse_argument(index, name, why, level)
    raise("bad argument #" .. index .. " to '" .. name .. "' (" .. why .. ")", level + 1)
  end
  local function set_integer(key, value, index, name, least, most)
    if value == nil then return end
    if not (is_text(value) and tonumber(value)) then
      refuse_argument(index, name, "number expected, got " .. type(value), 3)
    end
    value = tonumber(value)
    value = value < 0 and ceil(value) or floor(value)
    if not (value >= least and value <= most) then
      refuse_argument(1, name, "expected integer between " .. least .. " and " .. most, 3)
    end
    settings[key], is_changed = value, true
  end
  -- A setting is told as a boolean, unless it is null.
  local function shown(key)
    if settings[key] == "null" then return "null" end
    return settings[key] == "on"
  end
  local function set_option(key, value, name, has_null)
    if value == nil then return end
    if type(value) == "boolean" then value = value and "on" or "off" end
    if not is_text(value) then refuse_argument(1, name, "string expected, got " .. type(value), 3) end
    if not (value == "on" or value == "off" or has_null and value == "null") then
      refuse_argument(1, name, "invalid option '" .. value .. "'", 3)
    end
    settings[key], is_changed = value, true
  end
  local function at_most(count, name, ...)
    if select("#", ...) > count then refuse_argument(count + 1, name, "found too many arguments", 3) end
  end

  local library = { null = native.cjson.null, _NAME = "cjson", _VERSION = "2.1.0" }
  function library.new() return (new_cjson()) end
  function library.encode(...)
    if select("#", ...) ~= 1 then refuse_argument(1, "encode", "expected 1 argument", 2) end
    local s = settings
    local converts, invalid = s.converts_sparse == "on", s.encode_invalid
    local value = ...
    value = guarded[value] or value
    return settled(native.cjson.encode(value, s.encode_depth, s.digits, converts, s.ratio, s.safe, invalid))
  end
  function library.decode(...)
    if select("#", ...) ~= 1 then refuse_argument(1, "decode", "expected 1 argument", 2) end
    local text = ...
    if not is_text(text) then refuse_argument(1, "decode", "string expected, got " .. type(text), 2) end
    return settled(native.cjson.decode(text .. "", settings.decode_depth, settings.decode_invalid == "on"))
  end
  for name, setting in pairs {
    encode_max_depth = { "encode_depth", INTEGER_MAX },
    decode_max_depth = { "decode_depth", INTEGER_MAX },
    encode_number_precision = { "digits", 14 },
  } do
    library[name] = function(...)
      at_most(1, name, ...)
      set_integer(setting[1], (...), 1, name, 1, setting[2])
      return settings[setting[1]]
    end
  end
  for name, setting in pairs {
    encode_keep_buffer = { "keeps_buffer" },
    encode_invalid_numbers = { "encode_invalid", true },
    decode_invalid_numbers = { "decode_invalid" },
  } do
    library[name] = function(...)
      at_most(1, name, ...)
      set_option(setting[1], (...), name, setting[2])
      return shown(setting[1])
    end
  end
  function library.encode_sparse_array(...)
    local name = "encode_sparse_array"
    at_most(3, name, ...)
    local converts, ratio, safe = ...
    set_option("converts_sparse", converts, name)
    set_integer("ratio", ratio, 2, name, 0, INTEGER_MAX)
    set_integer("safe", safe, 3, name, 0, INTEGER_MAX)
    return shown("converts_sparse"), settings.ratio, settings.safe
  end
  return library, function() if is_changed then set_back() end end
end

local cjson, set_cjson_back = new_cjson()

-- The library `cmsgpack`. Limits and offsets are numbers of C: they have no fractions.
local cmsgpack = { _NAME = "cmsgpack", _VERSION = "lua-cmsgpack 0.4.0" }
local function whole(value, index, name)
  if value == nil then return 0 end
  local number = is_text(value) and tonumber(value)
  if not number then
    raise("bad argument #" .. index .. " to '" .. name .. "' (number expected, got " .. type(value) .. ")", 3)
  end
  return number < 0 and ceil(number) or floor(number)
end
local function packed_text(value, name)
  if not is_text(value) then
    local got = value == nil and "no value" or type(value)
    raise("bad argument #1 to '" .. name .. "' (string expected, got " .. got .. ")", 3)
  end
  return value .. ""
end
local function unpacked(is_well, ...)
  if not is_well then raise((...), 3) end
  return ...
end
function cmsgpack.pack(...)
  if select("#", ...) == 0 then raise("bad argument #0 to 'pack' (MessagePack pack needs input.)", 2) end
  return settled(native.cmsgpack.pack(...))
end
function cmsgpack.unpack(...)
  return unpacked(native.cmsgpack.unpack(packed_text((...), "unpack")))
end
function cmsgpack.unpack_one(text, offset)
  return unpacked(native.cmsgpack.unpack(packed_text(text, "unpack_one"), 1, whole(offset, 2, "unpack_one")))
end
function cmsgpack.unpack_limit(text, limit, offset)
  text = packed_text(text, "unpack_limit")
  return unpacked(native.cmsgpack.unpack(text, whole(limit, 2, "unpack_limit"), whole(offset, 3, "unpack_limit")))
end

-- The library `struct`.
local struct = {}
function struct.pack(format, ...)
  return settled(native.struct.pack(packed_text(format, "pack"), ...))
end
function struct.unpack(format, text, position)
  if not is_text(text) then
    local got = text == nil and "no value" or type(text)
    raise("bad argument #2 to 'unpack' (string expected, got " .. got .. ")", 2)
  end
  position = position == nil and 1 or whole(position, 3, "unpack")
  return unpacked(native.struct.unpack(packed_text(format, "unpack"), text .. "", position))
end
function struct.size(format)
  return settled(native.struct.size(packed_text(format, "size")))
end

local seen = {
  assert = assert, ipairs = ipairs, rawequal = rawequal, select = select, tonumber = tonumber,
  tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
  math = guard(math), string = guard(string), table = guard(table), redis = guard(redis), server = guard(redis),
  coroutine = guard(coroutines), cjson = guard(cjson), cmsgpack = guard(cmsgpack), struct = guard(struct), bit = guard(native.bit), os = guard { clock = native.clock },
  collectgarbage = garbage, gcinfo = function() return floor(collect("count")) end,
}

function seen.error(value, level)
  if type(value) == "table" and value.err and not value.place then value.place = place(2) end
  if level == nil then level = 1 end
  if not (is_text(level) and tonumber(level)) then
    raise("bad argument #2 to 'error' (number expected, got " .. type(level) .. ")", 2)
  end
  level = tonumber(level)
  error(value, level < 1 and 0 or level + 1)
end
function seen.pcall(body, ...) return protected(nil, true, body, ...) end
function seen.xpcall(body, handler) return protected(handler, false, body) end
local function run(script)
  set_cjson_back()
  empty_views()
  current, depth = nil, 0
  return protected(nil, false, script)
end
-- Functions that look past the metatable of a table see what is behind a view.
local function check_table(name, ...)
  local value = ...
  if type(value) == "table" then return end
  local got = select("#", ...) == 0 and "no value" or type(value)
  raise("bad argument #1 to '" .. name .. "' (table expected, got " .. got .. ")", 3)
end

local function next_of(table, key)
  return next(guarded[table] or table, key)
end

function seen.next(...)
  local table, key = ...
  check_table("next", ...)
  return next_of(table, key)
end

-- Pairs of other tables come from Lua's own function, which is faster.
function seen.pairs(...)
  local table = ...
  check_table("pairs", ...)
  return guarded[table] and next_of or next, table, nil
end

function seen.rawget(...)
  local table, key = ...
  check_table("rawget", ...)
  if select("#", ...) < 2 then raise("bad argument #2 to 'rawget' (value expected)", 2) end
  return rawget(guarded[table] or table, key)
end

function seen.getmetatable(...)
  local value = ...
  if select("#", ...) == 0 then raise("bad argument #1 to 'getmetatable' (value expected)", 2) end
  if guarded[value] then return nil end
  return (getmetatable(value))
end

function seen.setmetatable(...)
  local table, metatable = ...
  check_table("setmetatable", ...)
  if guarded[table] then error(READ_ONLY, 2) end
  if select("#", ...) < 2 or not (metatable == nil or type(metatable) == "table") then
    raise("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
  end
  local is_well, result = original_pcall(setmetatable, table, metatable)
  if not is_well then raise(result, 2) end
  return result
end

function seen.rawset(table, key, value)
  if guarded[table] then error(READ_ONLY, 2) end
  return rawset(table, key, value)
end

setmetatable(seen, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
local environment = guard(seen)
seen._G = environment
local function compiled(text, name)
  local chunk, why = native.compile(text, name)
  if chunk then setfenv(chunk, environment) end
  return chunk, why
end
function seen.loadstring(text, name) return compiled(text, name) end

-- The pieces of a text come from a function. As in Redis what that raises is returned as a table.
function seen.load(...)
  local reader, name = ...
  if type(reader) ~= "function" then
    local got = select("#", ...) == 0 and "no value" or type(reader)
    raise("bad argument #1 to 'load' (function expected, got " .. got .. ")", 2)
  end
  if not (name == nil or is_text(name)) then
    raise("bad argument #2 to 'load' (string expected, got " .. type(name) .. ")", 2)
  end
  local pieces = {}
  while true do
    local is_well, piece = protected(nil, false, reader)
    if is_well and not (piece == nil or is_text(piece)) then
      is_well, piece = false, place(2) .. "reader function must return a string"
    end
    if not is_well then return nil, type(piece) == "string" and { err = "ERR " .. piece } or piece end
    if piece == nil or piece == "" then break end
    pieces[#pieces + 1] = piece
  end
  return compiled(concat(pieces), name == nil and "=(load)" or name .. "")
end

-- The table behind the methods of strings is reached through no string.
getmetatable("").__metatable = false
string.dump = nil

return environment, seen, run
