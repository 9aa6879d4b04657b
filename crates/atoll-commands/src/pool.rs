//! `atoll pool`: create, inspect, verify, repair and remove pools.

use crate::logs;
use crate::new_pool::NewPoolArgs;
use crate::open_pool;
use atoll::fabric::{OnFabric, PoolFabric, ServedFabric, on_fabric};
use atoll::size::parse_bytes;
use atoll::{ClientInfo, NodeInfo, Pool, Removed, Repaired, Resized, Users};
use atoll_pool::Incarnation;
use atoll_pool::clock::OUTLIER_MS;
use bytesize::ByteSize;
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::json;
use std::error::Error;
use std::time::Duration;

/// Commands on pools.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Create a pool that other processes can open
    Create(CreateCommand),
    /// Make a pool larger while clients use it: put back into use what `shrink` took out of use, or
    /// add a memory node to a pool that was created to grow (--capacity-max)
    #[command(mut_arg("by", |by| by.help(GROW_BY)))]
    Grow(ResizeCommand),
    /// Make a pool smaller while clients use it, and evict what has no room; the memory returns to
    /// the host
    Shrink(ResizeCommand),
    /// Show the settings of a pool, its clients and how full it is
    Info(NameCommand),
    /// Check every invariant of a pool that no process uses, and print the faults
    Verify(NameCommand),
    /// Reclaim now what dead clients held; running clients do the same in the background
    Repair(RepairCommand),
    /// Remove a pool that no process uses. With --force also remove a pool in use; its processes
    /// keep the memory until they end
    Remove(RemoveCommand),
}

/// Options of `atoll pool create`.
#[derive(Args, Debug)]
pub struct CreateCommand {
    /// shm:/NAME, the path of a file, or tcp:HOST:PORT[,HOST:PORT...]
    name: String,
    #[command(flatten)]
    pool: NewPoolArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The meaning of `--by` for `atoll pool grow`.
const GROW_BY: &str = "Bytes to give back of those that `shrink` took out of use; if there are none, bytes of a new \
                       memory node, whose pages are reserved now";

/// Options of `atoll pool shrink` and `atoll pool grow`.
#[derive(Args, Debug)]
pub struct ResizeCommand {
    /// shm:/NAME, the path of a file, or tcp:HOST:PORT[,HOST:PORT...]
    name: String,
    /// Bytes to take out of use, in whole chunks
    #[arg(long, value_parser = parse_bytes)]
    by: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of commands on one pool.
#[derive(Args, Debug)]
pub struct NameCommand {
    /// shm:/NAME, the path of a file, or tcp:HOST:PORT[,HOST:PORT...]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `atoll pool repair`.
#[derive(Args, Debug)]
pub struct RepairCommand {
    /// shm:/NAME, the path of a file, or tcp:HOST:PORT[,HOST:PORT...]
    name: String,
    /// First kill the processes of stopped clients. While a stopped process may resume, what its
    /// clients hold cannot be reused
    #[arg(long)]
    kill_stopped: bool,
    /// First give up this memory node, which cannot be reached: its host is broken, or it has
    /// moved. End the processes that name its old address before. What was stored on it is lost
    #[arg(long, value_name = "NODE")]
    give_up: Option<u8>,
    /// Give it up even if clients seem to use it
    #[arg(long, requires = "give_up")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `atoll pool remove`.
#[derive(Args, Debug)]
pub struct RemoveCommand {
    /// shm:/NAME, the path of a file, or tcp:HOST:PORT[,HOST:PORT...]
    name: String,
    /// Also remove a pool that is in use or damaged, and what a process left that died while it
    /// created a pool; never a file of another kind
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PoolCommand {
    /// Does it, and prints what comes of it.
    pub fn run(self) -> Result<(), Box<dyn Error>> {
        logs::begin_plain();
        let name = match &self {
            Self::Create(command) => &command.name,
            Self::Grow(command) | Self::Shrink(command) => &command.name,
            Self::Info(command) | Self::Verify(command) => &command.name,
            Self::Repair(command) => &command.name,
            Self::Remove(command) => &command.name,
        };
        on_fabric(&name.clone(), self)?
    }
}

impl OnFabric for PoolCommand {
    type Output = Result<(), Box<dyn Error>>;

    fn run<F: ServedFabric>(self, fabric: F) -> Self::Output {
        match self {
            Self::Create(command) => command.run(&fabric),
            Self::Grow(command) => command.grow(&fabric),
            Self::Shrink(command) => command.shrink(&fabric),
            Self::Info(command) => info(&command, &fabric),
            Self::Verify(command) => verify(&command, &fabric),
            Self::Repair(command) => command.run(&fabric),
            Self::Remove(command) => command.run(&fabric),
        }
    }
}

impl CreateCommand {
    fn run(self, fabric: &impl PoolFabric) -> Result<(), Box<dyn Error>> {
        let capacity_bytes = self.pool.capacity_bytes_on(fabric)?;
        if capacity_bytes == 0 {
            let name = &self.name;
            return Err(format!(
                "the memory nodes have no memory left: perhaps a pool is there (`atoll pool info {name}`); use it, or \
                 `atoll pool remove {name}` first"
            )
            .into());
        }
        let nodes = self.pool.nodes(fabric.agents());
        let options = self.pool.options(self.pool.engine.options()?, capacity_bytes, fabric.agents());
        let pool = Pool::create_on(fabric, &options)?;
        let bar = ProgressBar::new(0).with_message("bytes of memory are there");
        let provided = pool.provide(|done, of| {
            bar.set_length(of);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        if let Err(error) = provided {
            // The pool lacks a part of what was requested, so it is removed. A failure of the
            // removal matters less than this one.
            drop(pool);
            let _ = Pool::remove_on(fabric, false);
            return Err(error.into());
        }
        let (bytes, engine) = (pool.capacity_bytes(), pool.engine());
        if self.json {
            let shown =
                json!({ "name": self.name, "capacity_bytes": bytes, "nodes": nodes, "engine": engine.to_string() });
            println!("{shown:#}");
            return Ok(());
        }
        println!("{} holds {bytes} bytes on {nodes} memory node(s) for engine {engine}", self.name);
        Ok(())
    }
}

impl ResizeCommand {
    fn shrink(self, fabric: &impl PoolFabric) -> Result<(), Box<dyn Error>> {
        let pool = open_pool(fabric)?;
        let bar = ProgressBar::new(0).with_message("chunks out of use");
        let resized = pool.shrink(self.by, |done, of| {
            bar.set_length(of);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let Resized { chunks, bytes, held_bytes } = resized?;
        if self.json {
            println!("{:#}", json!({ "chunks": chunks, "bytes": bytes, "held_bytes": held_bytes }));
            return Ok(());
        }
        println!("{chunks} chunks with {bytes} bytes are out of use");
        if held_bytes > 0 {
            println!("{held_bytes} bytes go back to the host once clients that stand still have gone on, or ended");
        }
        Ok(())
    }

    fn grow(self, fabric: &impl PoolFabric) -> Result<(), Box<dyn Error>> {
        let pool = open_pool(fabric)?;
        let Resized { chunks, bytes, .. } = pool.restore(self.by)?;
        if chunks > 0 {
            if self.json {
                println!("{:#}", json!({ "restored_chunks": chunks, "restored_bytes": bytes }));
            } else {
                println!("{chunks} chunks with {bytes} bytes are in use again");
                let missing = self.by.saturating_sub(bytes);
                // Less than a chunk cannot be had.
                if missing >= bytes / chunks {
                    println!("{missing} bytes are missing: no more was out of use, or the host has no memory for it");
                }
            }
            return Ok(());
        }
        let node = pool.grow(self.by)?;
        if self.json {
            println!("{:#}", json!({ "node": shown_node(&node), "capacity_bytes": pool.capacity_bytes() }));
            return Ok(());
        }
        let NodeInfo { number, chunks, bytes, region, .. } = node;
        let region = region.as_deref().unwrap_or("of this process");
        println!("memory node {number} ({region}) adds {chunks} chunks in {bytes} bytes");
        println!("{} holds {} bytes", self.name, pool.capacity_bytes());
        Ok(())
    }
}

/// A memory node as JSON.
pub(crate) fn shown_node(node: &NodeInfo) -> serde_json::Value {
    json!({
        "number": node.number, "region": node.region, "bytes": node.bytes, "chunks": node.chunks,
        "chunks_free": node.chunks_free, "absent": node.is_absent,
    })
}

/// A setting as JSON: a number, `true` or `false` if it is one, else a text.
fn as_json(value: &str) -> serde_json::Value {
    let parsed =
        serde_json::from_str(value).ok().filter(|value: &serde_json::Value| value.is_number() || value.is_boolean());
    parsed.unwrap_or_else(|| json!(value))
}

/// The message about a wall clock that is this far ahead of the pool's time.
fn refused(ahead_ms: i64) -> &'static str {
    if ahead_ms.unsigned_abs() < OUTLIER_MS {
        return "";
    }
    " (refused: objects expire by the pool's own time; a pool made anew takes this host's)"
}

/// Bytes for people: exact, and in a unit that they can picture.
fn sized(bytes: u64) -> String {
    if bytes < 10_000 { bytes.to_string() } else { format!("{bytes} ({})", ByteSize(bytes)) }
}

fn info(command: &NameCommand, fabric: &impl PoolFabric) -> Result<(), Box<dyn Error>> {
    let pool = open_pool(fabric)?;
    let info = pool.info()?;
    if command.json {
        let settings: serde_json::Map<_, _> =
            info.settings.iter().map(|(name, value)| ((*name).to_owned(), as_json(value))).collect();
        let shown = |client: &ClientInfo| {
            let Incarnation { slot, epoch } = client.incarnation;
            json!({ "slot": slot, "epoch": epoch, "pid": client.pid, "state": client.state.to_string() })
        };
        let clients: Vec<_> = info.clients.iter().map(shown).collect();
        let nodes: Vec<_> = info.nodes.iter().map(shown_node).collect();
        let by_capacity = info
            .hit_ratio_by_capacity()
            .map(|curve| curve.map(|(capacity, ratio)| json!({ "capacity": capacity, "hit_ratio": ratio })).to_vec());
        let by_use: serde_json::Map<_, _> =
            info.chunks_by_use.iter().map(|(what, chunks)| ((*what).to_owned(), (*chunks).into())).collect();
        let shown = json!({
            "name": command.name, "fabric": pool.fabric(), "settings": settings, "nodes": nodes, "objects": info.objects,
            "hits": info.hits, "misses": info.misses, "hit_ratio": info.hit_ratio(),
            "hit_ratio_by_capacity": by_capacity, "near_caches": info.near_caches,
            "clock_ms": info.clock_ms, "wall_clock_ahead_ms": info.wall_clock_ahead_ms,
            "chunks": info.chunks, "chunks_free": info.chunks_free, "chunks_by_use": by_use,
            "chunks_retired": info.chunks_retired, "chunks_undiscarded": info.chunks_undiscarded, "clients": clients,
            "quarantined_bytes": info.quarantined_bytes, "capacity_bytes": info.capacity_bytes,
            "used_bytes": info.used_bytes, "retired_bytes": info.retired_bytes, "provided_bytes": info.provided_bytes,
        });
        println!("{shown:#}");
        return Ok(());
    }
    let (used, capacity) = (info.used_bytes, info.capacity_bytes.saturating_sub(info.retired_bytes));
    println!("pool {} on fabric {}, engine {}", command.name, pool.fabric(), pool.engine());
    println!(
        "{} of {} in use ({:.0} %), {} objects, {} clients",
        ByteSize(used),
        ByteSize(capacity),
        100.0 * used as f64 / capacity.max(1) as f64,
        info.objects,
        info.clients.len()
    );
    match info.hit_ratio() {
        Some(ratio) => println!("hit ratio {:.1} % of {} lookups", 100.0 * ratio, info.lookups()),
        None => println!("no lookup yet, or none that its client has told"),
    }
    if let Some(curve) = info.hit_ratio_by_capacity() {
        let points = curve.map(|(capacity, ratio)| format!("{:.1} % at {capacity}", 100.0 * ratio));
        println!("  by capacity, in multiples of this one, as the clients' miniatures model it: {}", points.join(", "));
    }
    for (name, value) in &info.settings {
        match value.parse() {
            Ok(bytes) if name.contains("bytes") => println!("  {name:<18} {}", sized(bytes)),
            _ => println!("  {name:<18} {value}"),
        }
    }
    println!("  {:<18} {} of {}", "provided_bytes", sized(info.provided_bytes), sized(info.capacity_bytes));
    println!("  {:<18} {}", "objects", info.objects);
    println!("  {:<18} {}", "near_caches", info.near_caches);
    println!("  {:<18} {}", "clock_ms", info.clock_ms);
    println!("  {:<18} {}{}", "wall_ahead_ms", info.wall_clock_ahead_ms, refused(info.wall_clock_ahead_ms));
    println!("  {:<18} {} of {}", "chunks_free", info.chunks_free, info.chunks);
    let by_use = info.chunks_by_use.map(|(what, chunks)| format!("{what} {chunks}"));
    println!("  {:<18} {}", "chunks_by_use", by_use.join(", "));
    println!("  {:<18} {}", "chunks_retired", info.chunks_retired);
    if info.chunks_undiscarded > 0 {
        println!("  {:<18} {}", "chunks_undiscarded", info.chunks_undiscarded);
    }
    for NodeInfo { number, region, bytes, chunks, chunks_free, is_absent } in &info.nodes {
        let region = region.as_deref().unwrap_or("of this process");
        match is_absent {
            true => println!("    node {number} {region}: absent, its keys miss; start `atoll node` there again"),
            false => println!("    node {number} {region}: {}, {chunks_free} of {chunks} chunks free", sized(*bytes)),
        }
    }
    println!("  {:<18} {}", "quarantined_bytes", sized(info.quarantined_bytes));
    println!("  {:<18} {}", "clients", info.clients.len());
    for ClientInfo { incarnation, pid, state } in &info.clients {
        let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
        println!("    place {} epoch {} pid {pid} {state}", incarnation.slot, incarnation.epoch);
    }
    Ok(())
}

impl RepairCommand {
    fn run(self, fabric: &impl PoolFabric) -> Result<(), Box<dyn Error>> {
        if let Some(node) = self.give_up {
            Pool::give_up_on(fabric, node, self.force)?;
            if !self.json {
                println!("memory node {node} is given up; an `atoll node` at its address gets a new, empty one");
            }
        }
        let pool = open_pool(fabric)?;
        let killed = if self.kill_stopped { pool.kill_stopped()? } else { 0 };
        let mended = pool.repair()?;
        let left = pool.info()?;
        let Repaired { clients, chunks, recounted } = mended;
        if self.json {
            let shown = json!({
                "killed": killed, "clients": clients, "chunks": chunks, "recounted": recounted,
                "quarantined_bytes": left.quarantined_bytes,
            });
            println!("{shown:#}");
            return Ok(());
        }
        if self.kill_stopped {
            println!("{killed} stopped client(s) killed");
        }
        println!("{clients} dead client(s) shut out; {chunks} chunk(s) back, those of large objects among them");
        println!("{}", if recounted { "everything counted anew" } else { "nothing counted anew" });
        if left.quarantined_bytes > 0 {
            println!("{} bytes stay with clients that are stopped or not visible", left.quarantined_bytes);
        }
        Ok(())
    }
}

impl RemoveCommand {
    fn run(self, fabric: &impl PoolFabric) -> Result<(), Box<dyn Error>> {
        let removed = Pool::remove_on(fabric, self.force)?;
        let Removed { regions, bytes, in_use, users, left } = removed;
        if self.json {
            let Users { pids, connections } = users;
            let shown = json!({
                "regions": regions, "bytes": bytes, "in_use": in_use, "pids": pids, "connections": connections,
                "left": left,
            });
            println!("{shown:#}");
            return Ok(());
        }
        println!("removed {} with {bytes} bytes", regions.join(", "));
        if in_use {
            println!("{users} keeps the memory until its end");
        }
        for why in left {
            println!("some of it may be left: {why}");
        }
        Ok(())
    }
}

fn verify(command: &NameCommand, fabric: &impl PoolFabric) -> Result<(), Box<dyn Error>> {
    let pool = open_pool(fabric)?;
    let users = pool.users();
    if !users.is_empty() {
        eprintln!("{} is in use by {users}: what they do meanwhile may be shown as faults", command.name);
    }
    let progress = ProgressBar::new_spinner().with_message("walking the pool");
    progress.enable_steady_tick(Duration::from_millis(200));
    let report = pool.verify()?;
    progress.finish_and_clear();
    let ok = report.faults.is_empty();
    if command.json {
        println!(
            "{:#}",
            json!({ "ok": ok, "faults": report.faults, "in_use_by": users.pids, "in_use_from": users.connections })
        );
    } else {
        for fault in &report.faults {
            println!("fault: {fault}");
        }
        let [free, open, queued, leaving, extent, bound, out_of_use @ .., index] = report.chunks;
        println!("{} objects with {} bytes of keys and values", report.objects, report.body_bytes);
        let (extents, retired) = (extent + bound, out_of_use.iter().sum::<u64>());
        println!(
            "chunks: {free} free, {open} open, {queued} queued, {leaving} leaving, {extents} extents, {index} index, \
             {retired} retired"
        );
        println!("{}", if ok { "sound" } else { "NOT SOUND" });
    }
    if ok { Ok(()) } else { Err(format!("{} fault(s)", report.faults.len()).into()) }
}
