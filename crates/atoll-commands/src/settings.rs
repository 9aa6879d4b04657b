//! Where the options of `atoll serve` and `atoll node` come from.
//!
//! | the first that says something | in this form |
//! |---|---|
//! | the command line | `--maxclients 100` |
//! | the environment | `ATOLL_SERVE_MAXCLIENTS=100` |
//! | the file of `--config-file` | `maxclients = 100` in the table `[serve]` |
//! | the default | |
//!
//! What the command line leaves out is added to it, so that all values are checked alike. A command
//! takes part if it has the option `--config-file`. `--config` prints what came out, in the form of
//! the file.

use atoll_fabric::tcp::SECRET_FILE;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use toml::{Table, Value};

/// The option that names the file.
const FILE: &str = "config-file";

/// The file of a command's options.
#[derive(clap::Args, Debug)]
pub(crate) struct SettingsArgs {
    /// TOML file with options that neither the command line nor the environment
    /// (ATOLL_SERVE_MAXCLIENTS=100) gives: a table for each command, such as [serve], with lines
    /// such as maxclients = 100
    #[arg(long, value_name = "PATH")]
    config_file: Option<std::path::PathBuf>,
    /// Print all options with their values, as such a file has them, and do nothing else
    #[arg(long)]
    pub(crate) config: bool,
}

/// Options that such a file does not have.
const NOT_IN_FILE: [&str; 4] = [FILE, "config", "help", "version"];
/// The option whose values may hold a password.
const SECRET: &str = "user";

/// A command line with what was added to it.
#[derive(Debug)]
pub struct Arguments {
    /// The whole command line.
    pub all: Vec<OsString>,
    /// The options that were added, and where each came from.
    added: Vec<(String, String)>,
    /// Environment variables of the command that are none of its options.
    unknown: Vec<String>,
}

impl Arguments {
    /// What a user is told beside an error in the command line.
    pub fn note(&self) -> Option<String> {
        let added: Vec<String> = self.added.iter().map(|(long, whence)| format!("--{long} ({whence})")).collect();
        (!added.is_empty()).then(|| format!("These were not on the command line: {}", added.join(", ")))
    }

    /// What a user is told of the environment, a line each.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.unknown.iter().map(|name| format!("warning: the environment has {name}, which is no option"))
    }
}

/// How the options of a command came out.
pub struct Settled<'a> {
    command: &'a clap::Command,
    matches: &'a ArgMatches,
    arguments: &'a Arguments,
}

impl<'a> Settled<'a> {
    /// Of the program's command line. `None` if it has no command.
    pub fn new(program: &'a clap::Command, matches: &'a ArgMatches, arguments: &'a Arguments) -> Option<Self> {
        let (name, matches) = matches.subcommand()?;
        Some(Self { command: program.find_subcommand(name)?, matches, arguments })
    }

    /// Prints them. `defaults`: what options without a value come to.
    pub(crate) fn print(&self, defaults: &[(&str, String)]) {
        println!("[{}]", self.command.get_name());
        for arg in self.command.get_arguments() {
            let Some(long) = arg.get_long().filter(|long| !NOT_IN_FILE.contains(long)) else { continue };
            let default = defaults.iter().find(|(name, _)| *name == long).map(|(_, value)| value.as_str());
            println!("{}", self.line(arg, long, default));
        }
    }

    fn line(&self, arg: &Arg, long: &str, default: Option<&str>) -> String {
        let (id, key) = (arg.get_id().as_str(), long.replace('-', "_"));
        let given = self.matches.try_get_raw(id).ok().flatten();
        let given: Vec<String> =
            given.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect();
        let source = match self.matches.value_source(id) {
            Some(ValueSource::CommandLine) => {
                let added = self.arguments.added.iter().find(|(added, _)| added == long);
                added.map_or("command line", |(_, whence)| whence.as_str())
            }
            Some(ValueSource::EnvVariable) => "environment",
            _ => "default",
        };
        let value = match (arg.get_action(), given.as_slice(), default) {
            (_, [], None) => return format!("# {key} ="),
            (_, [], Some(default)) => typed(default),
            (ArgAction::Append, given, _) if long == SECRET => {
                // A rule may hold a password.
                let names: Vec<&str> = given.iter().filter_map(|rules| rules.split(' ').next()).collect();
                return format!("# {key} = {}: the rules are not shown", names.join(", "));
            }
            (ArgAction::Append, given, _) => Value::Array(given.iter().map(|value| typed(value)).collect()),
            (_, [given, ..], _) => typed(given),
        };
        let line = format!("{key} = {value}");
        if source == "default" { line } else { format!("{line:<40}  # {source}") }
    }
}

/// A value as a file has it.
fn typed(text: &str) -> Value {
    match (text, text.parse()) {
        ("yes" | "true", _) => Value::Boolean(true),
        ("no" | "false", _) => Value::Boolean(false),
        (_, Ok(number)) => Value::Integer(number),
        _ => Value::String(text.to_owned()),
    }
}

/// The command line `given`, with what the environment and the file say besides.
pub fn arguments(
    program: &clap::Command,
    given: Vec<OsString>,
    environment: &BTreeMap<String, OsString>,
) -> Result<Arguments, String> {
    let variable = |name: &str| environment.get(name).cloned();
    if variable(SECRET_FILE).is_some_and(|path| path.is_empty()) {
        return Err(format!("{SECRET_FILE} is empty: unset it, or let it name the file with the memory nodes' secret"));
    }
    let mut arguments = Arguments { all: given, added: Vec::new(), unknown: Vec::new() };
    let name = arguments.all.get(1).and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let Some(command) = program.find_subcommand(&name).filter(|command| option(command, FILE).is_some()) else {
        return Ok(arguments);
    };
    let named = |long: &str| format!("ATOLL_{name}_{long}").to_uppercase().replace('-', "_");
    let from_environment = |long: &str| variable(&named(long)).map(|value| (value, named(long)));
    let known: Vec<String> = command.get_arguments().filter_map(|arg| arg.get_long().map(named)).collect();
    let meant = environment.keys().filter(|name| name.starts_with(&named("")));
    arguments.unknown = meant.filter(|name| !known.contains(name)).cloned().collect();
    let file = match value_of(&arguments.all, FILE) {
        Some(path) => Some(path),
        None => from_environment(FILE).map(|(path, _)| path),
    };
    let table = match &file {
        Some(path) => read(program, Path::new(path), &name)?,
        None => Table::new(),
    };
    let shown = file.as_deref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(key) = table.keys().find(|key| option(command, &key.replace('_', "-")).is_none()) {
        return Err(format!("{shown}: [{name}] has {key}, which is no option: see `atoll {name} --help`"));
    }
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long().filter(|long| !is_given(&arguments.all, long)) else { continue };
        if arg.get_env().is_some_and(|env| env.to_str().and_then(&variable).is_some()) {
            continue;
        }
        let in_table = table.iter().find(|(key, _)| key.replace('_', "-") == long).map(|(_, value)| value);
        if let Some((value, named)) = from_environment(long) {
            arguments.add(arg, long, value, &named)?;
        } else if let Some(value) = in_table {
            let whence = format!("{shown}, [{name}]");
            let values = match value {
                Value::Array(values) if matches!(arg.get_action(), ArgAction::Append) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            for value in values {
                let text = text(value).ok_or_else(|| format!("{whence}: {long} takes a text or a number"))?;
                arguments.add(arg, long, text.into(), &whence)?;
            }
        }
    }
    Ok(arguments)
}

impl Arguments {
    fn add(&mut self, arg: &Arg, long: &str, value: OsString, whence: &str) -> Result<(), String> {
        let mut option = OsString::from(format!("--{long}"));
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            match value.to_str() {
                Some("yes" | "true" | "1") => {}
                Some("no" | "false" | "0" | "") => return Ok(()),
                _ => return Err(format!("{whence}: {long} is yes or no")),
            }
        } else {
            option.push("=");
            option.push(value);
        }
        self.all.push(option);
        self.added.push((long.to_owned(), whence.to_owned()));
        Ok(())
    }
}

/// A command's option that a user may give a value beforehand.
fn option<'c>(command: &'c clap::Command, long: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(long))
}

/// What stands behind an option on the command line, if it is there.
fn behind<'a>(all: &'a [OsString], long: &str) -> Option<(&'a str, Option<&'a OsString>)> {
    let mut rest = all.iter();
    while let Some(word) = rest.next() {
        let Some(found) = word.to_str().and_then(|word| word.strip_prefix("--")?.strip_prefix(long)) else { continue };
        if found.is_empty() || found.starts_with('=') {
            return Some((found, rest.next()));
        }
    }
    None
}

fn is_given(all: &[OsString], long: &str) -> bool {
    behind(all, long).is_some()
}

fn value_of(all: &[OsString], long: &str) -> Option<OsString> {
    match behind(all, long)? {
        ("", next) => next.cloned(),
        (found, _) => Some(found[1..].into()),
    }
}

/// The table of a command in a file. The others must be of other commands.
fn read(program: &clap::Command, path: &Path, name: &str) -> Result<Table, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let mut all: Table = text.parse().map_err(|error| format!("{shown}: {error}"))?;
    for (key, value) in &all {
        let is_command = program.find_subcommand(key).is_some_and(|command| option(command, FILE).is_some());
        if !value.is_table() {
            return Err(format!("{shown}: {key} is in no table: put it below a line with [{name}]"));
        }
        if !is_command {
            return Err(format!("{shown}: [{key}] is for no command that takes options from a file"));
        }
    }
    match all.remove(name) {
        Some(Value::Table(table)) => Ok(table),
        _ => Ok(Table::new()),
    }
}

/// A value as it is typed.
fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(true) => "yes".to_owned(),
        Value::Boolean(false) => "no".to_owned(),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> clap::Command {
        let option = |long: &'static str| Arg::new(long).long(long);
        let serve = clap::Command::new("serve")
            .args([option(FILE), option("tls-port"), option("unix").env("SECRET")])
            .arg(option("strict").action(ArgAction::SetTrue))
            .arg(option("user").action(ArgAction::Append));
        clap::Command::new("atoll").subcommands([serve, clap::Command::new("pool").arg(option("unix"))])
    }

    /// The command line that comes of these words, variables and lines of a file.
    fn settled(given: &str, variables: &[(&str, &str)], file: &str) -> Result<String, String> {
        let path = std::env::temp_dir().join(format!("atoll-settings-{:?}", std::thread::current().id()));
        std::fs::write(&path, file).unwrap();
        let given = given.replace("FILE", path.to_str().unwrap());
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        let found = arguments(&program(), given.split(' ').map(OsString::from).collect(), &environment);
        std::fs::remove_file(&path).unwrap();
        let all = found?.all.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ");
        Ok(all.strip_prefix(&given).unwrap().trim().to_owned())
    }

    #[test]
    fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
        let file = "[serve]\ntls_port = 1\nunix = 'of the file'";
        let variables = [("ATOLL_SERVE_TLS_PORT", "2")];
        let from = |given: &str, variables: &[_]| settled(given, variables, file).unwrap();
        assert_eq!(from("atoll serve --config-file FILE", &[]), "--tls-port=1 --unix=of the file");
        assert_eq!(from("atoll serve --config-file=FILE", &variables), "--tls-port=2 --unix=of the file");
        assert_eq!(from("atoll serve --config-file FILE --tls-port 3", &variables), "--unix=of the file");
        assert_eq!(from("atoll serve --tls-port=3 --config-file FILE", &variables), "--unix=of the file");
        assert_eq!(from("atoll serve", &variables), "--tls-port=2");
        // clap knows a variable of its own for it.
        assert_eq!(from("atoll serve --config-file FILE", &[("SECRET", "x")]), "--tls-port=1");
        // Commands without the option take nothing.
        assert_eq!(from("atoll pool --config-file FILE", &[("ATOLL_POOL_UNIX", "x")]), "");
        assert_eq!(from("atoll", &variables), "");
    }

    #[test]
    fn a_variable_that_is_no_option_is_told_of() {
        let environment = ["ATOLL_SERVE_TLS_PROT", "ATOLL_SERVE_UNIX", "ATOLL_NODE_X", "HOME"];
        let environment = environment.map(|name| (name.to_owned(), "x".into())).into();
        let found = arguments(&program(), ["atoll", "serve"].map(OsString::from).into(), &environment).unwrap();
        let warnings: Vec<String> = found.warnings().collect();
        assert_eq!(warnings, ["warning: the environment has ATOLL_SERVE_TLS_PROT, which is no option"]);
    }

    #[test]
    fn flags_are_yes_or_no_and_what_may_be_given_often_is_a_list() {
        let from = |variables: &[_], file: &str| settled("atoll serve --config-file FILE", variables, file);
        assert_eq!(from(&[], "[serve]\nstrict = true").unwrap(), "--strict");
        assert_eq!(from(&[("ATOLL_SERVE_STRICT", "no")], "[serve]\nstrict = true").unwrap(), "");
        assert!(from(&[("ATOLL_SERVE_STRICT", "perhaps")], "").unwrap_err().contains("yes or no"));
        assert_eq!(from(&[], "[serve]\nuser = ['a on', 'b on']").unwrap(), "--user=a on --user=b on");
        assert_eq!(from(&[], "[serve]\nuser = 'a'\n[pool]").unwrap_err().split(": ").nth(1).unwrap(), {
            "[pool] is for no command that takes options from a file"
        });
    }

    #[test]
    fn a_bad_file_says_what_is_wrong() {
        let said = |file: &str| settled("atoll serve --config-file FILE", &[], file).unwrap_err();
        assert!(said("[serve]\nport = 1").contains("[serve] has port, which is no option"));
        assert!(said("unix = 'x'").contains("put it below a line with [serve]"));
        assert!(said("[serve]\nunix = [1]").contains("takes a text or a number"));
        assert!(said("[serve\n").contains("TOML parse error"));
        let absent = settled("atoll serve --config-file /none/such", &[], "").unwrap_err();
        assert!(absent.starts_with("/none/such: "), "{absent}");
    }
}
