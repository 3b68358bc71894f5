-- Wireshark dissectors of Candela: NDP packets (package packet/ndp), labels of fair queueing (package packet/fairshim),
-- packets of lock managers (package packet/netlock), and the metadata that mirror copies of RoCE packets carry in their Ethernet
-- addresses and TTL (docs/reference/formats.md).
--
--   tshark -X lua_script:candela.lua -r trace.pcap
--
-- or put the file into Wireshark's folder of personal plugins. Lua 5.2 to 5.4; no library besides Wireshark's.

local NDP_PORT, ROCE_PORT = 61791, 4791
local HEADER = 22

-- NDP ---------------------------------------------------------------------------------------------------------------------------

local ndp = Proto("candela_ndp", "NDP (Candela)")

local kinds = { [1] = "data", [2] = "ack", [3] = "nack", [4] = "pull" }

local f = {
  magic = ProtoField.uint16("candela_ndp.magic", "Magic", base.HEX),
  version = ProtoField.uint8("candela_ndp.version", "Version", base.DEC, nil, 0xf0),
  kind = ProtoField.uint8("candela_ndp.kind", "Kind", base.DEC, kinds, 0x0f),
  flags = ProtoField.uint8("candela_ndp.flags", "Flags", base.HEX),
  syn = ProtoField.bool("candela_ndp.flags.syn", "First window", 8, nil, 0x01),
  last = ProtoField.bool("candela_ndp.flags.last", "Last packet", 8, nil, 0x02),
  trimmed = ProtoField.bool("candela_ndp.flags.trimmed", "Trimmed", 8, nil, 0x04),
  returned = ProtoField.bool("candela_ndp.flags.returned", "Returned to sender", 8, nil, 0x08),
  connection = ProtoField.uint32("candela_ndp.connection", "Connection"),
  seq = ProtoField.uint32("candela_ndp.seq", "Packet number"),
  counter = ProtoField.uint32("candela_ndp.counter", "Counter"),
  path = ProtoField.uint16("candela_ndp.path", "Path tag"),
  length = ProtoField.uint16("candela_ndp.length", "Payload length"),
  checksum = ProtoField.uint16("candela_ndp.checksum", "Header checksum", base.HEX),
  checksum_ok = ProtoField.bool("candela_ndp.checksum.good", "Header checksum is right"),
  missing = ProtoField.uint32("candela_ndp.missing", "Payload bytes cut off"),
}
ndp.fields = f

local counter_means = {
  [1] = "transmissions on the connection before this one", [2] = "every packet below it has arrived whole",
  [3] = "every packet below it has arrived whole", [4] = "PULLs sent on the connection, this one included",
}

local bad_checksum = ProtoExpert.new("candela_ndp.checksum.bad", "NDP header checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR)
local was_trimmed = ProtoExpert.new("candela_ndp.trimmed", "Payload was trimmed", expert.group.SEQUENCE, expert.severity.NOTE)
ndp.experts = { bad_checksum, was_trimmed }

-- flag reports whether bit 2^n of a byte is set; without a bit library, because there is none common to all versions of Lua.
local function flag(byte, n)
  return math.floor(byte / 2 ^ n) % 2 == 1
end

-- checksum is the one's complement sum of the header, the trimmed and returned marks counted as clear.
local function checksum(tvb)
  local marks = tvb(3, 1):uint()
  local sum = 0
  for i = 0, 18, 2 do
    sum = sum + tvb(i, 2):uint()
  end
  sum = sum - (flag(marks, 2) and 4 or 0) - (flag(marks, 3) and 8 or 0)
  while sum > 0xffff do
    sum = math.floor(sum / 0x10000) + sum % 0x10000
  end
  return 0xffff - sum
end

local function is_ndp(tvb)
  if tvb:len() < HEADER or tvb(0, 2):uint() ~= 0xd05e then
    return false
  end
  local k = tvb(2, 1):uint()
  return math.floor(k / 16) == 1 and kinds[k % 16] ~= nil
end

local function flag_names(byte)
  local names = {}
  for n, name in ipairs({ "syn", "last", "trimmed", "returned" }) do
    if flag(byte, n - 1) then
      names[#names + 1] = name
    end
  end
  return table.concat(names, " ")
end

local function add_flags(tree, tvb)
  local flags = tree:add(f.flags, tvb(3, 1))
  for _, field in ipairs({ f.syn, f.last, f.trimmed, f.returned }) do
    flags:add(field, tvb(3, 1))
  end
end

function ndp.dissector(tvb, pinfo, root)
  if not is_ndp(tvb) then
    return 0
  end
  local kind, marks = tvb(2, 1):uint() % 16, tvb(3, 1):uint()
  local length = tvb(18, 2):uint()
  pinfo.cols.protocol = "NDP"
  local tree = root:add(ndp, tvb(0, HEADER))
  tree:add(f.magic, tvb(0, 2))
  tree:add(f.version, tvb(2, 1))
  tree:add(f.kind, tvb(2, 1))
  add_flags(tree, tvb)
  tree:add(f.connection, tvb(4, 4))
  tree:add(f.seq, tvb(8, 4))
  tree:add(f.counter, tvb(12, 4)):append_text(" (" .. counter_means[kind] .. ")")
  tree:add(f.path, tvb(16, 2))
  tree:add(f.length, tvb(18, 2))
  local sum = tree:add(f.checksum, tvb(20, 2))
  local good = tvb(20, 2):uint() == checksum(tvb)
  sum:add(f.checksum_ok, tvb(20, 2), good):set_generated()
  if not good then
    sum:add_proto_expert_info(bad_checksum)
  end
  -- The reported length is the packet's; the capture may hold less.
  local missing = math.max(0, length - (tvb:reported_len() - HEADER))
  if kind == 1 and (missing > 0 or flag(marks, 2)) then
    tree:add(f.missing, tvb(18, 2), missing):set_generated()
    tree:add_proto_expert_info(was_trimmed)
  end
  local info = string.format("%s connection %d", kinds[kind]:upper(), tvb(4, 4):uint())
  if kind == 4 then
    info = info .. " counter " .. tvb(12, 4):uint()
  else
    info = info .. " packet " .. tvb(8, 4):uint()
  end
  local names = flag_names(marks)
  if names ~= "" then
    info = info .. " [" .. names .. "]"
  end
  pinfo.cols.info = info
  if tvb:len() > HEADER then
    Dissector.get("data"):call(tvb(HEADER):tvb(), pinfo, root)
  end
  return tvb:len()
end

DissectorTable.get("udp.port"):add(NDP_PORT, ndp)

-- Labels of core-stateless fair queueing -----------------------------------------------------------------------------------------

local FAIR_PROTOCOL, FAIR_FIXED = 253, 6

local fair = Proto("candela_fair", "Label of fair queueing (Candela)")

local l = {
  version = ProtoField.uint8("candela_fair.version", "Version", base.DEC, nil, 0xf0),
  depth = ProtoField.uint8("candela_fair.depth", "Nodes from the link to the flow's parent", base.DEC, nil, 0x0f),
  next = ProtoField.uint8("candela_fair.next", "Protocol of what follows"),
  rate = ProtoField.uint32("candela_fair.rate_kbps", "Rate (kbit/s)"),
  node = ProtoField.uint16("candela_fair.node", "Node"),
}
fair.fields = l

local bad_order = ProtoExpert.new("candela_fair.order", "Nodes are not in the order of a path", expert.group.MALFORMED, expert.severity.ERROR)
fair.experts = { bad_order }

local ip_protocols = DissectorTable.get("ip.proto")

local function is_fair(tvb)
  if tvb:len() < FAIR_FIXED or tvb(1, 1):uint() == FAIR_PROTOCOL then
    return false
  end
  local first = tvb(0, 1):uint()
  return math.floor(first / 16) == 1 and first % 16 > 0 and tvb:len() >= 4 + 2 * (first % 16)
end

function fair.dissector(tvb, pinfo, root)
  if not is_fair(tvb) then
    return 0
  end
  local depth = tvb(0, 1):uint() % 16
  local size, next = 4 + 2 * depth, tvb(1, 1):uint()
  local tree = root:add(fair, tvb(0, size))
  tree:add(l.version, tvb(0, 1))
  tree:add(l.depth, tvb(0, 1))
  tree:add(l.next, tvb(1, 1))
  tree:add(l.rate, tvb(2, 4))
  local above = 0
  for at = FAIR_FIXED, size - 2, 2 do
    local item, id = tree:add(l.node, tvb(at, 2)), tvb(at, 2):uint()
    if id <= above then
      item:add_proto_expert_info(bad_order)
    end
    above = id
  end
  tree:append_text(string.format(", %g Mb/s at node %d", tvb(2, 4):uint() / 1000, above))
  pinfo.cols.protocol = "Label"
  if tvb:len() > size and ip_protocols:try(next, tvb(size):tvb(), pinfo, root) == 0 then
    Dissector.get("data"):call(tvb(size):tvb(), pinfo, root)
  end
  return tvb:len()
end

ip_protocols:add(FAIR_PROTOCOL, fair)

-- Packets of lock managers ------------------------------------------------------------------------------------------------------

local LOCK_PORTS, LOCK_FIXED = { 8888, 8889 }, 20

local lock = Proto("candela_lock", "NetLock (Candela)")

local lock_ops = { [0] = "ACQUIRE", [1] = "RELEASE", [2] = "PUSH_BACK", [3] = "GRANT_FROM_SERVER", [4] = "REJECT",
  [5] = "PUSH_REQ", [6] = "PUSH_EMPTY" }
local lock_modes = { [0] = "S", [1] = "X" }
local lock_marks = { [1] = "OWNED", [2] = "BUFFER_ONLY", [3] = "FAILOVER" }

local k = {
  passes = ProtoField.uint8("candela_lock.passes", "Passes through the switch"),
  op = ProtoField.uint8("candela_lock.op", "Operation", base.DEC, lock_ops),
  mode = ProtoField.uint8("candela_lock.mode", "Mode", base.DEC, lock_modes),
  client = ProtoField.uint8("candela_lock.client", "Client thread"),
  transaction = ProtoField.uint32("candela_lock.transaction", "Transaction"),
  id = ProtoField.uint32("candela_lock.id", "Lock"),
  timestamp = ProtoField.uint64("candela_lock.timestamp", "Timestamp of the client"),
  mark = ProtoField.uint8("candela_lock.mark", "Mark", base.DEC, lock_marks),
  priority = ProtoField.uint8("candela_lock.priority", "Priority"),
  tenant = ProtoField.uint16("candela_lock.tenant", "Tenant"),
  last = ProtoField.none("candela_lock.last", "Last packet of this PUSH_REQ"),
  avail = ProtoField.uint32("candela_lock.avail", "Free slots of the switch"),
  sent = ProtoField.uint64("candela_lock.sent", "BUFFER_ONLY packets sent for the lock"),
  received = ProtoField.uint64("candela_lock.received", "BUFFER_ONLY packets received for the lock"),
  index = ProtoField.uint64("candela_lock.index", "Number among the packets pushed back"),
  address4 = ProtoField.ipv4("candela_lock.address", "Address of the client"),
  address6 = ProtoField.ipv6("candela_lock.address6", "Address of the client"),
}
lock.fields = k

local bad_option = ProtoExpert.new("candela_lock.option", "Unknown or damaged option", expert.group.MALFORMED, expert.severity.ERROR)
lock.experts = { bad_option }

-- Options by type: field, bytes of the value.
local lock_options = { [16] = { k.priority, 1 }, [17] = { k.tenant, 2 }, [18] = { k.last, 0 }, [19] = { k.avail, 4 },
  [20] = { k.sent, 8 }, [21] = { k.received, 8 }, [22] = { k.index, 8 } }

local function is_lock(tvb)
  return tvb:len() >= LOCK_FIXED and tvb(0, 1):uint() <= 2 and lock_ops[tvb(1, 1):uint()] ~= nil
    and lock_modes[tvb(2, 1):uint()] ~= nil
end

-- add_lock_options adds what follows the mark, and reports whether it is right.
local function add_lock_options(tree, tvb, at)
  while at < tvb:len() and tvb(at, 1):uint() ~= 0 do
    local kind = tvb(at, 1):uint()
    if at + 2 > tvb:len() or at + 2 + tvb(at + 1, 1):uint() > tvb:len() then
      return false
    end
    local size, option = tvb(at + 1, 1):uint(), lock_options[kind]
    if option ~= nil and size == option[2] then
      tree:add(option[1], size > 0 and tvb(at + 2, size) or tvb(at, 2))
    elseif kind == 23 and (size == 4 or size == 16) then
      tree:add(size == 4 and k.address4 or k.address6, tvb(at + 2, size))
    else
      return false
    end
    at = at + 2 + size
  end
  return true
end

function lock.dissector(tvb, pinfo, root)
  if not is_lock(tvb) then
    return 0
  end
  local tree = root:add(lock, tvb())
  for i, field in ipairs({ k.passes, k.op, k.mode, k.client }) do
    tree:add(field, tvb(i - 1, 1))
  end
  tree:add(k.transaction, tvb(4, 4))
  tree:add(k.id, tvb(8, 4))
  tree:add(k.timestamp, tvb(12, 8))
  local at, mark = LOCK_FIXED, ""
  if tvb:len() > at and lock_marks[tvb(at, 1):uint()] ~= nil then
    mark = " " .. lock_marks[tvb(at, 1):uint()]
    tree:add(k.mark, tvb(at, 1))
    at = at + 1
  end
  if not add_lock_options(tree, tvb, at) then
    tree:add_proto_expert_info(bad_option)
  end
  pinfo.cols.protocol = "NetLock"
  pinfo.cols.info = string.format("%s%s %s lock %d transaction %d", pinfo.dst_port == LOCK_PORTS[2] and "answer to " or "",
    lock_ops[tvb(1, 1):uint()], lock_modes[tvb(2, 1):uint()], tvb(8, 4):uint(), tvb(4, 4):uint()) .. mark
  return tvb:len()
end

for _, port in ipairs(LOCK_PORTS) do
  DissectorTable.get("udp.port"):add(port, lock)
end

-- Mirror metadata ---------------------------------------------------------------------------------------------------------------

local mirror = Proto("candela_mirror", "Candela mirror copy")

local events = { --[[ events ]] }

local m = {
  seq = ProtoField.uint64("candela_mirror.seq", "Mirror sequence number"),
  time = ProtoField.uint64("candela_mirror.time_ns", "Time at the injector, ns modulo 2^48"),
  event = ProtoField.uint8("candela_mirror.event", "Event", base.DEC, events),
}
mirror.fields = m
mirror.prefs.when = Pref.enum("Take frames for mirror copies", 1,
  "Automatic: RoCE frames (UDP port 4791) whose TTL is an event type. Always: any UDP frame whose TTL is one, for captures "
  .. "made on the way to a dumper, where the port is random.",
  { { 1, "Automatic", 1 }, { 2, "Always", 2 }, { 3, "Never", 3 } }, false)

-- locate returns offsets of the IP header, of its TTL and of the UDP header, or nothing.
local function locate(tvb)
  if tvb:len() < 42 then
    return nil
  end
  local ip, ethertype = 14, tvb(12, 2):uint()
  if ethertype == 0x8100 then
    ip, ethertype = 18, tvb(16, 2):uint()
  end
  if ethertype == 0x0800 and tvb(ip + 9, 1):uint() == 17 then
    return ip, ip + 8, ip + 4 * (tvb(ip, 1):uint() % 16)
  end
  if ethertype == 0x86dd and tvb:len() >= ip + 48 and tvb(ip + 6, 1):uint() == 17 then
    return ip, ip + 7, ip + 40
  end
  return nil
end

function mirror.dissector(tvb, pinfo, root)
  if mirror.prefs.when == 3 then
    return
  end
  local ip, ttl, udp = locate(tvb)
  if ip == nil or tvb:len() < udp + 8 or events[tvb(ttl, 1):uint()] == nil then
    return
  end
  if mirror.prefs.when == 1 and tvb(udp + 2, 2):uint() ~= ROCE_PORT then
    return
  end
  local tree = root:add(mirror, tvb(0, 12))
  tree:add(m.seq, tvb(6, 6), tvb(6, 6):uint64())
  tree:add(m.time, tvb(0, 6), tvb(0, 6):uint64())
  tree:add(m.event, tvb(ttl, 1))
  tree:append_text(string.format(" #%s, %s", tostring(tvb(6, 6):uint64()), events[tvb(ttl, 1):uint()]))
end

register_postdissector(mirror)
