-- Builds what scripts see. Runs once for each interpreter, with the functions of the server in `native`.
--
-- A script runs as a coroutine. To call a command it yields the arguments, and is resumed with the reply and whether
-- that is an error. What each command passes through does as little as it can: no text is made or compared. Lua 5.1
-- cannot yield through its own pcall, so that scripts get one that passes on what its function yields.
local native = ...
local yield, create, resume = coroutine.yield, coroutine.create, coroutine.resume
local error, type, tostring, select, original_pcall = error, type, tostring, select, pcall
local setmetatable, getmetatable, rawset, setfenv = setmetatable, getmetatable, rawset, setfenv

local READ_ONLY = "Attempt to modify a readonly table"
local guarded = {}
-- What a protected function returns first, and never yields.
local ended = {}

-- A view of a table that cannot be changed.
local function guard(table)
  local view = {}
  guarded[view] = true
  return setmetatable(view, {
    __index = table,
    __newindex = function() error(READ_ONLY, 2) end,
    __metatable = false,
  })
end

-- Where the script is, as errors say it; level 1 is who called this function.
local function place(level)
  local _, text = original_pcall(error, "", level + 2)
  return text
end

-- Runs `body`, and passes on what it yields. An error that is to end the script is no result.
local function protected(handler, is_plain, body, ...)
  local thread = create(function(...) return ended, body(...) end)
  local function go(is_well, ...)
    if not is_well then
      if native.is_over() then error((...), 0) end
      if handler then return false, handler(...) end
      -- As in Redis, what a command raised is a text for whom it was kept from.
      if is_plain and type(...) == "table" and (...).err then return false, (...).err end
      return false, ...
    end
    if (...) == ended then return true, select(2, ...) end
    return go(resume(thread, yield(...)))
  end
  return go(resume(thread, ...))
end

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  sha1hex = native.sha1hex,
}

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

function redis.error_reply(text)
  if type(text) ~= "string" then error("wrong number or type of arguments", 2) end
  if text:sub(1, 1) == "-" then text = text:sub(2) elseif not text:find(" ", 1, true) then text = "ERR " .. text end
  return { err = text }
end

function redis.status_reply(text)
  if type(text) ~= "string" then error("wrong number or type of arguments", 2) end
  return { ok = text }
end

-- Nothing is replicated, and what a script logs has no reader here.
function redis.log() end
function redis.replicate_commands() return true end
function redis.set_repl() end
function redis.setresp(version)
  if version ~= 2 then error("RESP version must be 2.", 2) end
end

local seen = {
  assert = assert, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, select = select, setmetatable = setmetatable, tonumber = tonumber,
  tostring = tostring, type = type, unpack = unpack, _VERSION = _VERSION,
  math = guard(math), string = guard(string), table = guard(table), redis = guard(redis), server = guard(redis),
  cjson = guard(native.cjson), bit = guard(native.bit),
}

function seen.error(value, level)
  if type(value) == "table" and value.err and not value.place then value.place = place(2) end
  error(value, level == 0 and 0 or (level or 1) + 1)
end
function seen.pcall(body, ...) return protected(nil, true, body, ...) end
function seen.xpcall(body, handler) return protected(handler, false, body) end
local function run(script) return protected(nil, false, script) end
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
function seen.loadstring(text, name)
  local chunk, why = native.compile(text, name)
  if chunk then setfenv(chunk, environment) end
  return chunk, why
end

-- The table behind the methods of strings is reached through no string.
getmetatable("").__metatable = false
string.dump = nil

return environment, seen, run
