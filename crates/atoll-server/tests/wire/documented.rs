//! What COMMAND says of each command, beside what a real redis-server says.

use crate::common::redis_server::Redis;
use crate::common::{options, start};
use redis::Value;
use std::fmt::Debug;

/// The elements of an array.
fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(elements) => elements,
        _ => &[],
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// What a map has under this name: in RESP2 a list of names and values in turn.
fn field<'v>(map: &'v Value, name: &str) -> Option<&'v Value> {
    list(map).chunks(2).find(|pair| text(&pair[0]) == name).map(|pair| &pair[1])
}

fn words(value: Option<&Value>) -> Vec<String> {
    value.map_or(Vec::new(), |value| list(value).iter().map(text).collect())
}

/// The key specifications that say where the keys are.
fn keys(specifications: &Value) -> Vec<String> {
    let shown = |one: &Value| {
        let part = |name| field(one, name).map(|part| (field(part, "type").map(text), words(field(part, "spec"))));
        format!("{:?} {:?} {:?}", words(field(one, "flags")), part("begin_search"), part("find_keys"))
    };
    list(specifications).iter().map(shown).filter(|one| !one.contains("unknown")).collect()
}

/// Arguments as a syntax, so that hints are the same; groups of arguments have no name there.
fn syntax(arguments: Option<&Value>) -> String {
    let one = |argument: &Value| {
        let of = |name| field(argument, name).map(text);
        let (kind, flags) = (of("type").unwrap(), words(field(argument, "flags")));
        let within = field(argument, "arguments");
        let shown = match &*kind {
            "pure-token" => String::new(),
            "oneof" | "block" => format!("{kind}({})", syntax(within)),
            // A block of one is that one.
            _ => format!("<{}:{kind}:{:?}>", of("name").unwrap(), of("key_spec_index")),
        };
        format!("{}{shown}{flags:?}", of("token").unwrap_or_default())
    };
    arguments.map_or(String::new(), |arguments| list(arguments).iter().map(one).collect::<Vec<_>>().join(" "))
}

/// Notes that both say something else.
fn same<T: PartialEq + Debug>(differences: &mut Vec<String>, what: String, (ours, theirs): (T, T)) {
    if ours != theirs {
        differences.push(format!("{what}: {ours:?} and not {theirs:?}"));
    }
}

/// Notes where what COMMAND INFO says of a command or subcommand differs.
fn compare_info(differences: &mut Vec<String>, name: &str, ours: &[Value], theirs: &[Value]) {
    same(differences, format!("elements of {name}"), (ours.len(), theirs.len()));
    let sorted = |element: &Value| {
        let mut words = words(Some(element));
        words.sort();
        words
    };
    same(differences, format!("arity of {name}"), (text(&ours[1]), text(&theirs[1])));
    same(differences, format!("flags of {name}"), (sorted(&ours[2]), sorted(&theirs[2])));
    for place in 3..6 {
        same(differences, format!("keys of {name}"), (text(&ours[place]), text(&theirs[place])));
    }
    same(differences, format!("categories of {name}"), (sorted(&ours[6]), sorted(&theirs[6])));
    same(differences, format!("tips of {name}"), (words(Some(&ours[7])), words(Some(&theirs[7]))));
    same(differences, format!("key specifications of {name}"), (keys(&ours[8]), keys(&theirs[8])));
}

#[test]
fn commands_are_described_as_redis_describes_them() {
    let Some(peer) = Redis::start() else { return };
    let server = start(options());
    let open = |address: String| redis::Client::open(format!("redis://{address}")).unwrap().get_connection().unwrap();
    let (mut ours, mut theirs) = (open(server.address.to_string()), open(peer.address.to_string()));
    let all: Value = redis::cmd("COMMAND").query(&mut ours).unwrap();
    assert!(list(&all).len() > 120);
    let mut differences = Vec::new();
    for command in list(&all) {
        let ours_info = list(command);
        let name = text(&ours_info[0]);
        let info = |connection: &mut redis::Connection, name: &str| -> Vec<Value> {
            let reply: Value = redis::cmd("COMMAND").arg("INFO").arg(name).query(connection).unwrap();
            list(&list(&reply)[0]).to_vec()
        };
        let their_info = info(&mut theirs, &name);
        compare_info(&mut differences, &name, ours_info, &their_info);

        let docs = |connection: &mut redis::Connection| -> Value {
            let reply: Value = redis::cmd("COMMAND").arg("DOCS").arg(&name).query(connection).unwrap();
            list(&reply)[1].clone()
        };
        let (our_docs, their_docs) = (docs(&mut ours), docs(&mut theirs));
        for about in ["since", "group", "deprecated_since", "replaced_by"] {
            let (our, their) = (field(&our_docs, about).map(text), field(&their_docs, about).map(text));
            same(&mut differences, format!("{about} of {name}"), (our, their));
        }
        assert!(field(&our_docs, "summary").is_some(), "{name}");
        let (our, their) = (syntax(field(&our_docs, "arguments")), syntax(field(&their_docs, "arguments")));
        // A block of one is that one here.
        let their = their.replace("block(<pattern:pattern:None>[])", "<pattern:pattern:None>");
        // Which keys SORT has besides its own is not said.
        let their = their.replace(":Some(\"2\")>", ":Some(\"0\")>").replace("pattern:Some(\"1\")", "pattern:None");
        same(&mut differences, format!("arguments of {name}"), (our, their));
        // Each subcommand that Redis has too: within its container, and by its name.
        for subcommand in list(&ours_info[9]) {
            let name = text(&list(subcommand)[0]);
            assert_eq!(info(&mut ours, &name.to_uppercase()), list(subcommand), "{name}");
            let their_info = info(&mut theirs, &name);
            if their_info.is_empty() {
                assert!(["client|no-touch", "client|setinfo"].contains(&name.as_str()), "{name}");
                continue;
            }
            compare_info(&mut differences, &name, list(subcommand), &their_info);
            let docs = |connection: &mut redis::Connection| -> Value {
                let reply: Value = redis::cmd("COMMAND").arg("DOCS").arg(&name).query(connection).unwrap();
                list(&reply)[1].clone()
            };
            let (our_docs, their_docs) = (docs(&mut ours), docs(&mut theirs));
            for about in ["since", "group"] {
                let (our, their) = (field(&our_docs, about).map(text), field(&their_docs, about).map(text));
                same(&mut differences, format!("{about} of {name}"), (our, their));
            }
            let their_keys =
                field(&their_docs, "arguments").map(|arguments| field(&list(arguments)[0], "key_spec_index"));
            if let Some(index) = their_keys.flatten() {
                let our_keys = field(&list(field(&our_docs, "arguments").unwrap())[0], "key_spec_index").map(text);
                same(&mut differences, format!("key of {name}"), (our_keys, Some(text(index))));
            }
        }
    }
    for absent in ["client|nosuch", "get|x", "nosuch|x", "client|", "|"] {
        let reply: Value = redis::cmd("COMMAND").arg("INFO").arg(absent).query(&mut ours).unwrap();
        assert_eq!(list(&reply), [Value::Nil], "{absent}");
        let reply: Value = redis::cmd("COMMAND").arg("DOCS").arg(absent).query(&mut ours).unwrap();
        assert!(list(&reply).is_empty(), "{absent}");
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
