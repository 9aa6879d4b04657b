//! `--engine` and the options of each engine, for every command that creates a pool.
//!
//! Both come from the list of engines ([`EngineId::ALL`]): a further engine changes nothing here.

use atoll::{EngineId, EngineOptions};
use atoll_cache::engines::EngineOption;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The engine of a new pool. A process that opens the pool reads it from the header.
#[derive(Debug, Default)]
pub(super) struct EngineArgs {
    /// The name that stands for the engine's choices, if it was given.
    name: Option<String>,
    /// The options that were given, each with its engine and its value. A switch's value is empty.
    chosen: Vec<(EngineId, &'static EngineOption, String)>,
}

const ENGINE: &str = "engine";

/// The options of all engines.
fn options() -> impl Iterator<Item = (EngineId, &'static EngineOption)> {
    EngineId::ALL.iter().flat_map(|id| id.identity().options.iter().map(|option| (*id, option)))
}

impl EngineArgs {
    /// The first engine option that was given.
    pub(super) fn given(&self) -> Option<String> {
        let named = self.name.as_ref().map(|_| ENGINE);
        let chosen = self.chosen.first().map(|(_, option, _)| option.described.name);
        named.or(chosen).map(|name| format!("--{name}"))
    }

    /// The settings of the engine, or why the options exclude each other.
    pub(super) fn options(&self) -> Result<EngineOptions, String> {
        let mut engine = match &self.name {
            None => EngineOptions::default(),
            Some(name) => EngineOptions::named(name).expect("clap lets names of the list through alone")?,
        };
        for (of, option, value) in &self.chosen {
            let name = option.described.name;
            if engine.id() != *of {
                return Err(format!("--{name} is for {of}: add --{ENGINE} {of}, or leave it out"));
            }
            engine.choose(name, value).map_err(|error| format!("--{name}: {error}"))?;
        }
        Ok(engine)
    }
}

impl Args for EngineArgs {
    fn augment_args(command: Command) -> Command {
        let forms = EngineId::ALL.iter().flat_map(|id| id.identity().forms);
        let names = forms.map(|form| PossibleValue::new(form.name).help(form.what));
        let shipped = EngineOptions::default().id();
        let engine = Arg::new(ENGINE)
            .long(ENGINE)
            .value_name("ENGINE")
            .help(format!("The engine, which chooses the objects to evict [default: {shipped}]"))
            .value_parser(PossibleValuesParser::new(names));
        options().fold(command.arg(engine), |command, (_, option)| {
            let arg = Arg::new(option.described.name).long(option.described.name).help(option.described.what);
            command.arg(match option.value {
                Some(value) => arg.value_name(value),
                None => arg.action(ArgAction::SetTrue),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EngineArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let value = |option: &EngineOption| match option.value {
            Some(_) => matches.get_one::<String>(option.described.name).cloned(),
            None => matches.get_flag(option.described.name).then(String::new),
        };
        let chosen = options().filter_map(|(id, option)| Some((id, option, value(option)?)));
        Ok(Self { name: matches.get_one(ENGINE).cloned(), chosen: chosen.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
