// Parsing and rejection of hostfiles.
#include "hostfile/hostfile.hpp"

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::hostfile::test {

namespace {

using Optional = std::optional<int>;

std::vector<HostEntry> parse(std::string_view text) {
  return parse_hostfile(text, "hosts");
}

HostEntry parse_one(std::string_view text) {
  const auto hosts = parse(text);
  REQUIRE(hosts.size() == 1);
  return hosts[0];
}

std::string error_of(std::string_view text) {
  try {
    (void)parse(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.sentence();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a host with slots, however it is written") {
  for (const std::string text : {"a slots=2",
                                 "a slots=2\n",
                                 "a slots=2\r\n",
                                 "a slots=2\r",
                                 "a slots = 2",
                                 "a slots =2\n",
                                 "a slots= 2",
                                 "a\tslots=2",
                                 "\ta \t slots\t=\t2",
                                 "\xEF\xBB\xBF"
                                 "a slots=2",
                                 "a slots=2   \t ",
                                 "\n\n  a slots=2\n\n",
                                 "a SLOTS=2",
                                 "a count=2",
                                 "a cpu=2",
                                 "a:2",
                                 "a slots=2 # b slots=3",
                                 "a slots=2 // b",
                                 "# x\na slots=2",
                                 "// x\r\na slots=2",
                                 "/* b */ a /* c */ slots=2",
                                 "/* b slots=1\nc */a slots=2",
                                 "a slots=2#x",
                                 "a slots=2/*"
                                 "x*/",
                                 "# /* not open\na slots=2",
                                 "a\na",
                                 "a\n\na\r\n"}) {
    INFO(text);
    const auto host = parse_one(text);
    CHECK(host.name == "a");
    CHECK(host.slots == 2);
  }
}

TEST_CASE("other keys of a line") {
  const auto host = parse_one("u@h slots=2 max_slots=4 port=2222");
  CHECK(host.name == "h");
  CHECK(host.user == "u");
  CHECK(host.slots == 2);
  CHECK(host.max_slots == 4);
  CHECK(host.port == 2222);
  CHECK(parse_one("h slots=2 max-slots=4").max_slots == 4);
  CHECK(parse_one("h slots=2 slots-max = 4").max_slots == 4);
  CHECK(parse_one("h user=u").user == "u");
  CHECK(parse_one("u@h:3").slots == 3);
  CHECK(parse_one("h:3 ifname=eth0 binding=rr").slots == 3);
  CHECK(parse_one("h").slots == std::nullopt);
}

TEST_CASE("a colon counts slots, unless the name is an address with colons") {
  struct Row {
    std::string text;
    std::string name;
    Optional slots;
  };
  const std::vector<Row> table{
      {"h:4", "h", 4},
      {"fe80::1", "fe80::1", {}},
      {"[::1]:2", "::1", 2},
      {"[::1]", "::1", {}},
      {"::1", "::1", {}},
      {"10.0.0.1:4", "10.0.0.1", 4},
      {"10.0.0.1", "10.0.0.1", {}},
      {"fe80::1%eth0", "fe80::1%eth0", {}},
      {"fd00::4 slots=2", "fd00::4", 2},
      {"[fe80::1%eth0]:3", "fe80::1%eth0", 3},
      {"::ffff:10.0.0.1", "::ffff:10.0.0.1", {}},
  };
  for (const auto& row : table) {
    INFO(row.text);
    const auto host = parse_one(row.text);
    CHECK(host.name == row.name);
    CHECK(host.slots == row.slots);
  }
}

TEST_CASE("a repeated name") {
  CHECK(parse_one("a\na").slots == 2);
  CHECK(parse_one("localhost\nlocalhost\nlocalhost").slots == 3);
  CHECK(parse_one("a:2\na:3").slots == 5);
  const auto mixed = parse("a\nb\na\nc");
  REQUIRE(mixed.size() == 3);
  CHECK(mixed[0].slots == 2);
  CHECK(mixed[1].slots == std::nullopt);
  CHECK(mixed[2].line == 4);
}

TEST_CASE("slots that contradict are an error with both lines") {
  CHECK(error_of("a slots=2\nb slots=1\na slots=3")
            .starts_with("hosts:3: a has slots=3 here and slots=2 on line 1:"));
  CHECK(
      error_of("a\na slots=3").starts_with("hosts:2: a has slots=3 here and no slots on line 1:"));
  CHECK(error_of("a:2\na").starts_with("hosts:2: a has no slots here and a:2 on line 1:"));
  CHECK(error_of("a port=22\na port=23").starts_with("hosts:2: a has port=23 here and port=22"));
}

TEST_CASE("names are compared as a whole") {
  for (const std::string text : {"w.1.foo\nw.2.foo", "node1\nnode10", "gpu.a\ngpu.b", "a\nA"}) {
    INFO(text);
    CHECK(parse(text).size() == 2);
  }
}

TEST_CASE("^ excludes a host, on any line") {
  for (const std::string text : {"a slots=1\nb slots=2\n^a", "^a\na slots=1\nb slots=2"}) {
    const auto host = parse_one(text);
    CHECK(host.name == "b");
  }
  std::vector<std::string> notes;
  (void)parse_hostfile("a\nb\n^a\n^a", "hosts", &notes);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("hosts:3: Open MPI 4.1 and 5.0 reject ^a"));
  CHECK(error_of("a\n^a").find("excludes every host") != std::string::npos);
}

TEST_CASE("invalid hostfiles are errors with file, line and remedy") {
  struct Row {
    std::string text;
    std::string begins;
    std::string has;
  };
  const std::vector<Row> table{
      {"ok\na@b@c", "hosts:2: invalid host 'a@b@c'", "user@host"},
      {"x@", "hosts:1: invalid host 'x@'", "user@host"},
      {"@h", "hosts:1: invalid host '@h'", "user@host"},
      {"a slots=0", "hosts:1: invalid count in 'slots=0'", "from 1"},
      {"a slots=-1", "hosts:1: invalid count in 'slots=-1'", "from 1"},
      {"a slots=", "hosts:1: invalid count in 'slots='", "from 1"},
      {"a slots=two", "hosts:1: invalid count in 'slots=two'", "whole number"},
      {"a slots=2x", "hosts:1: invalid count in 'slots=2x'", "whole number"},
      {"a slots=99999999999", "hosts:1: invalid count in 'slots=99999999999'", "whole number"},
      {"a slots=1 slots=1", "hosts:1: slots=1", "twice"},
      {"a slots", "hosts:1: unexpected 'slots' after a", "slots=N"},
      {"a b", "hosts:1: unexpected 'b' after a", "own line"},
      {"a,b", "hosts:1: 'a,b'", "own line"},
      {"node[1-4]", "hosts:1: 'node[1-4]'", "scontrol show hostnames"},
      {"node1 slot=2", "hosts:1: unknown key 'slot=2'", "slots=N"},
      {"rank 0=a slot=1", "hosts:1:", ""},
      {"slots=2", "hosts:1: slots=2 comes before a host", ""},
      {"h:", "hosts:1: invalid count in 'h:'", "whole number"},
      {"h:0", "hosts:1: invalid count in 'h:0'", "whole number"},
      {"h:4:5", "hosts:1: invalid host 'h:4:5'", ""},
      {"h:2 slots=2", "hosts:1: h has both", "give one"},
      {"[::1", "hosts:1: invalid address '[::1'", "[fd00::1]:2"},
      {"[::1]2", "hosts:1: invalid address '[::1]2'", ""},
      {"[host]:2", "hosts:1: invalid address '[host]:2'", ""},
      {"-x", "hosts:1: invalid host '-x'", ""},
      {"a slots=4 max_slots=2", "hosts:1: max_slots=2 is below", ""},
      {"a port=70000", "hosts:1: invalid count in 'port=70000'", "65535"},
      {"+n0", "hosts:1: '+n0'", "scheduler"},
      {"a\n/* b\nc", "hosts:2: the comment", "*/"},
      {"", "hosts:1: no host found", "node1 slots=2"},
      {"# nothing\n\n", "hosts:1: no host found", ""},
      {std::string("a\n\0b", 4), "hosts:2: not a text file", ""},
  };
  for (const auto& row : table) {
    const auto sentence = error_of(row.text);
    INFO(row.text << "  ->  " << sentence);
    CHECK(sentence.starts_with(row.begins));
    CHECK(sentence.find(row.has) != std::string::npos);
  }
}

TEST_CASE("any bytes are parsed or rejected") {
  std::uint32_t state = 1;
  const std::string alphabet = "ab1:[]=@^#/* \t\n\r,.-+%\xEF\xBB\xBFslots";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 24; ++i) {
      state = state * 1664525 + 1013904223;
      text += alphabet[(state >> 16) % alphabet.size()];
    }
    try {
      for (const auto& host : parse(text)) {
        REQUIRE(!host.name.empty());
        REQUIRE(host.slots.value_or(1) >= 1);
      }
    } catch (const Error& error) {
      REQUIRE(error.sentence().starts_with("hosts:"));
    }
  }
}

}  // namespace tutti::hostfile::test
