//! `--engine` and its options, for every command that creates a pool.

use atoll::EngineOptions;
use atoll_cache::ditto::DittoOptions;
use atoll_cache::experts::ExpertSet;
use atoll_cache::forge::{ForgeOptions, Rule};
use clap::{Args, ValueEnum};

/// The engine of a new pool. A process that opens the pool reads it from the header.
#[derive(Args, Debug)]
pub(super) struct EngineArgs {
    /// The engine, which chooses the objects to evict [default: forge]
    #[arg(long, value_enum)]
    engine: Option<EngineChoice>,
    /// Eviction policies that ditto weighs against each other, such as lru+lfu, or a single one
    #[arg(long, value_name = "POLICY+POLICY")]
    experts: Option<ExpertSet>,
    /// The small queue's share of the pool, in percent (forge-paper: 20; without it, each client of
    /// forge chooses)
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100))]
    small_percent: Option<u8>,
    /// Keep no ghosts of evicted keys in the index of forge
    #[arg(long)]
    no_ghosts: bool,
}

/// The engines as users name them. Engines for comparison are in `atoll lab`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum EngineChoice {
    /// Groups of objects in two queues, each object judged by its own accesses, with ghosts; each
    /// client chooses the rule that fits its requests
    #[default]
    Forge,
    /// FORGE as in the paper: eight groups merged into one, virtual segments, no ghosts
    ForgePaper,
    /// Random samples of objects, judged by policies whose weights are learned
    Ditto,
}

impl EngineArgs {
    /// The first engine option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--engine", self.engine.is_some()),
            ("--experts", self.experts.is_some()),
            ("--small-percent", self.small_percent.is_some()),
            ("--no-ghosts", self.no_ghosts),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The settings of the engine, or why the options exclude each other.
    pub(super) fn options(&self) -> Result<EngineOptions, String> {
        let engine = self.engine.unwrap_or_default();
        if self.experts.is_some() && engine != EngineChoice::Ditto {
            return Err("--experts is for ditto: add --engine ditto, or leave it out".to_owned());
        }
        let is_forge = matches!(engine, EngineChoice::Forge | EngineChoice::ForgePaper);
        if (self.small_percent.is_some() || self.no_ghosts) && !is_forge {
            return Err(
                "--small-percent and --no-ghosts are for forge: add --engine forge, or leave them out".to_owned()
            );
        }
        Ok(match engine {
            EngineChoice::Forge => EngineOptions::Forge(self.forge(ForgeOptions::default())),
            EngineChoice::ForgePaper => EngineOptions::Forge(self.forge(ForgeOptions::paper())),
            EngineChoice::Ditto => {
                EngineOptions::Ditto(self.experts.map_or_else(DittoOptions::default, DittoOptions::adaptive))
            }
        })
    }

    fn forge(&self, shipped: ForgeOptions) -> ForgeOptions {
        let small_percent = self.small_percent.unwrap_or(shipped.small_percent);
        // Clients that choose their rule would choose these too.
        let is_given = self.small_percent.is_some() || self.no_ghosts;
        let rule = if is_given && shipped.rule == Rule::Chosen { Rule::Object } else { shipped.rule };
        ForgeOptions { rule, small_percent, ghosts: shipped.ghosts && !self.no_ghosts, ..shipped }
    }
}
