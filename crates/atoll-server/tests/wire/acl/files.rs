//! Users that a server is started with, and those of a file.

use super::{connect_as, ends, ok, text};
use crate::common::{Raw, options, start_redis};
use atoll_server::{Redis, RedisOptions, ServerOptions};
use std::path::PathBuf;

/// A folder that is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("atoll-acl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_bad_file_keeps_the_users_that_were_there() {
    let folder = Folder::new("load");
    let path = folder.0.join("users.acl");
    std::fs::write(&path, "user a on nopass ~* +@all\nuser b on nopass ~b* +get\n").unwrap();
    let redis = || Redis::new(RedisOptions::default()).with_acl_file(path.clone());
    let server = start_redis(redis().unwrap(), ServerOptions { threads: 2, ..options() });
    let mut operator = Raw::connect(server.address);
    let config = text(operator.call(&["CONFIG", "GET", "aclfile"]));
    assert!(config.contains(path.to_str().unwrap()), "{config}");
    let before = text(operator.call(&["ACL", "LIST"]));
    assert_eq!(before.matches("user ").count(), 3, "{before}");
    let bad = "user a off\n# mine\nuser c on +nosuch\nuser c on\nuser d (+get\n";
    std::fs::write(&path, bad).unwrap();
    let mut user = connect_as(&server, "a");
    let why = text(operator.call(&["ACL", "LOAD"]));
    for part in [
        ":2 should start with user keyword",
        ":3: Error in applying operation '+nosuch': Unknown command",
        "WARNING: Duplicate user 'c' found on line 4. ",
        ":5: Unmatched parenthesis",
        "no change to the previously active ACL rules was performed\r\n",
    ] {
        assert!(why.starts_with("-ERR ") && why.contains(part), "{why}");
    }
    assert_eq!(text(operator.call(&["ACL", "LIST"])), before);
    assert_eq!(text(user.call(&["PING"])), "+PONG\r\n");
    // It is a person's, and stays as it is.
    assert!(text(operator.call(&["ACL", "SAVE"])).contains("stays as it is"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), bad);
    assert!(redis().is_err());
    std::fs::remove_file(&path).unwrap();
    assert!(text(operator.call(&["ACL", "LOAD"])).starts_with("-ERR Error loading ACLs, opening file"));
    assert_eq!(text(operator.call(&["ACL", "LIST"])), before);
    // What was saved is loaded again; connections of users other than `default` end.
    ok(&mut operator, &["ACL", "SETUSER", "e", "on", ">p", "%R~x", "&c", "+@read", "-get", "(+select|0 ~*)"]);
    ok(&mut operator, &["ACL", "SAVE"]);
    let saved = text(operator.call(&["ACL", "LIST"]));
    ok(&mut operator, &["ACL", "SETUSER", "e", "reset"]);
    ok(&mut operator, &["ACL", "LOAD"]);
    assert_eq!(text(operator.call(&["ACL", "LIST"])), saved);
    assert!(ends(user));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    // A file may hold the operator's own rights.
    std::fs::write(&path, "user default on nopass ~* &* +@all -acl|setuser\n").unwrap();
    ok(&mut operator, &["ACL", "LOAD"]);
    assert!(text(operator.call(&["ACL", "SETUSER", "x"])).starts_with("-NOPERM"));
    assert_eq!(text(operator.call(&["ACL", "USERS"])), "*1\r\n$7\r\ndefault\r\n");
}

#[test]
fn users_are_given_at_the_start() {
    let redis = Redis::default().with_users("user ana on nopass ~* +@all\nuser default off", "start").unwrap();
    let server = start_redis(redis, options());
    let mut raw = Raw::connect(server.address);
    assert_eq!(text(raw.call(&["PING"])), "-NOAUTH Authentication required.\r\n");
    assert_eq!(text(connect_as(&server, "ana").call(&["PING"])), "+PONG\r\n");
    let why = Redis::default().with_users("user ana on +nosuch", "start").err().unwrap().to_string();
    assert!(why.starts_with("start:1: Error in applying operation '+nosuch'"), "{why}");
}
