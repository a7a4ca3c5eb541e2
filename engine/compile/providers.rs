//! Providers: the workflow's own and the project's, who is asked through which, and what that costs.

use std::{collections::BTreeMap, sync::Arc};

use super::{AgentSpec, Batch, Compiler, runtimes::LIMITS};
use crate::{
    budget::Limit,
    contract::{
        name::Name,
        providers::{self as written, Budget},
        runtime::Runtime,
    },
    diagnostic::{Code, Diagnostic, Place},
    lane::Limits,
    source::pointer,
    usage::{Cost, Price},
};

/// Any model of a provider that has no price of its own.
const ANY: &str = "*";
/// The endpoint of those who name none, which the environment chooses.
const UNNAMED: &str = "openai";

/// The limits and prices of a provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderSpec {
    pub limits: Limits,
    prices: BTreeMap<String, Price>,
    /// Where its endpoint is, and where that is written.
    pub base_url: Option<(Name, Place)>,
}

impl ProviderSpec {
    fn new(provider: &written::Provider, at: Place) -> ProviderSpec {
        let prices = provider.prices.iter().map(|(model, price)| {
            let price = Price {
                input: price.input,
                output: price.output,
                cached_input: price.cached_input.unwrap_or(price.input),
            };
            (model.to_string(), price)
        });
        ProviderSpec {
            limits: Limits {
                concurrency: provider.max_concurrency.map(|it| it.get()),
                requests: provider.requests_per_minute.map(|it| it.get().into()),
                tokens: provider.tokens_per_minute.map(|it| it.get()),
            },
            prices: prices.collect(),
            base_url: provider.base_url.clone().map(|it| (it, at)),
        }
    }

    /// The price of a model, or of one that is not known yet.
    pub fn price(&self, model: Option<&str>) -> Option<Price> {
        let own = model.and_then(|it| self.prices.get(it));
        own.or_else(|| self.prices.get(ANY)).copied()
    }
}

impl AgentSpec {
    /// The model it is asked through, where a file names it.
    pub fn model(&self) -> Option<&str> {
        match &self.runtime {
            Runtime::Openai { model, .. } => model.as_deref(),
            _ => None,
        }
    }

    /// Whom it is asked through, the first one first, each with the model where a file names it.
    pub fn ways(&self) -> impl Iterator<Item = (&Arc<str>, Option<&str>)> {
        let others = self.others.iter();
        let others = others.map(|(provider, model)| (provider, Some(&**model)));
        let first = self.provider.iter().map(|it| (it, self.model()));
        first.chain(others)
    }

    /// The most tokens an answer of its model may have, where a file says so.
    pub fn max_output_tokens(&self) -> Option<u64> {
        let Runtime::Openai {
            max_output_tokens,
            extra_body,
            ..
        } = &self.runtime
        else {
            return None;
        };
        let in_body = LIMITS.iter().find_map(|it| extra_body.get(*it)?.as_u64());
        in_body.or(max_output_tokens.map(|it| it.get()))
    }
}

/// What a budget says.
pub(super) fn limit(budget: &Budget) -> Limit {
    Limit {
        tokens: budget.tokens.map(|it| it.get()),
        cost: budget.cost.map(Cost::new),
        cu: None,
    }
}

/// Agents whose answers cost nobody knows what, although there is a budget in money.
pub fn unpriced<'a>(
    agents: impl Iterator<Item = &'a AgentSpec>,
    providers: &BTreeMap<Arc<str>, ProviderSpec>,
) -> Vec<Diagnostic> {
    let ways = agents.flat_map(|spec| spec.ways().map(move |it| (spec, it)));
    let faults = ways.filter_map(|(spec, (name, model))| {
        let provider = providers.get(name);
        if provider.and_then(|it| it.price(model)).is_some() {
            return None;
        }
        let agent = &spec.name;
        let (model, key) = match model {
            Some(model) => (format!("the model `{model}` of `{agent}` has no price"), model),
            None => (format!("`{agent}` names no model that could have a price"), ANY),
        };
        let message = format!("there is a budget in money, but {model}");
        let help = match provider {
            Some(_) => format!("give it one: `prices: {{\"{key}\": {{input: ..., output: ...}}}}` of the provider `{name}`, for a million tokens"),
            None => format!("name a provider in its `runtime`, and give that `prices: {{\"{key}\": {{input: ..., output: ...}}}}`, for a million tokens"),
        };
        Some(Diagnostic::error(Code::NoPrice, message).at(spec.at.clone()).help(help))
    });
    faults.collect()
}

impl Compiler<'_> {
    /// All providers there are.
    pub(super) fn providers(&self) -> BTreeMap<Arc<str>, ProviderSpec> {
        let shared = self.bundle.shared_providers.iter();
        let shared = shared.map(|it| (&it.value.providers, &it.source));
        let own = &self.bundle.orchestrator;
        let all = shared.chain([(&own.value.providers, &own.source)]);
        let specs = all.flat_map(|(providers, source)| {
            providers.iter().map(|(name, it)| {
                let at = source.place(&(pointer("/providers", name) + "/base_url"));
                (Arc::from(name.as_str()), ProviderSpec::new(it, at))
            })
        });
        specs.collect()
    }

    /// The project's, then the workflow's own.
    fn written_providers(&self) -> impl Iterator<Item = (&Name, &written::Provider)> {
        let shared = self.bundle.shared_providers.iter();
        let shared = shared.flat_map(|it| &it.value.providers);
        shared.chain(&self.bundle.orchestrator.value.providers)
    }

    /// Who an agent is asked through: the provider that it names, else the one that has its endpoint, else that
    /// endpoint. Its runtime takes from the provider what it does not say.
    pub(super) fn provider(&mut self, runtime: &mut Runtime, at: Place) -> Option<Arc<str>> {
        let named = match runtime {
            Runtime::Openai { provider, .. }
            | Runtime::A2a { provider, .. }
            | Runtime::Command { provider, .. }
            | Runtime::Scripted { provider, .. } => provider.clone(),
            Runtime::Template { .. } | Runtime::Acmp { .. } | Runtime::Human { .. } => None,
        };
        if let Some(name) = named {
            let found = self.written_providers().filter(|it| *it.0 == name).last();
            let Some(found) = found.map(|it| it.1.clone()) else {
                let message = format!("no file defines a provider `{name}`");
                let names: Vec<&str> = self.written_providers().map(|it| it.0.as_str()).collect();
                let diagnostic = Diagnostic::error(Code::UnknownProvider, message).at(at);
                let help = "define it under `providers` of `orchestrator.yaml`, or in `providers.yaml` beside the `workflows` folder";
                self.push(diagnostic.found(name.as_str()).allowed(names).help(help));
                return None;
            };
            if let Runtime::Openai {
                base_url,
                api_key_env,
                ..
            } = runtime
            {
                let is_elsewhere = base_url.is_some();
                *base_url = base_url.take().or(found.base_url);
                // A key is for the endpoint it was given to.
                let inherited = found.api_key_env.filter(|_| !is_elsewhere);
                *api_key_env = api_key_env.take().or(inherited);
            }
            return Some(name.as_str().into());
        }
        let Runtime::Openai { base_url, .. } = runtime else {
            return None;
        };
        let Some(url) = base_url else {
            return Some(UNNAMED.into());
        };
        Some(self.provider_at(url))
    }

    /// The provider that has an endpoint, else that endpoint.
    fn provider_at(&self, url: &Name) -> Arc<str> {
        let has_it = |(name, it): &(&Name, &written::Provider)| {
            let theirs = it.base_url.as_ref().unwrap_or(name);
            theirs.trim_end_matches('/') == url.trim_end_matches('/')
        };
        let found = self.written_providers().find(has_it).map(|it| it.0);
        found.unwrap_or(url).as_str().into()
    }

    /// Those that stand in for an agent's model, which are at its own endpoint if they name no other.
    pub(super) fn others(
        &self,
        runtime: &Runtime,
        provider: Option<&Arc<str>>,
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let (Runtime::Openai { fallback, .. }, Some(own)) = (runtime, provider) else {
            return Vec::new();
        };
        let others = fallback.iter().map(|it| {
            let theirs = it.base_url.as_ref().map(|url| self.provider_at(url));
            let model = it.model.as_str().into();
            (theirs.unwrap_or_else(|| Arc::clone(own)), model)
        });
        others.collect()
    }

    /// A budget in money needs prices.
    pub(super) fn prices(
        &mut self,
        agents: &BTreeMap<String, AgentSpec>,
        batches: &[Batch],
        providers: &BTreeMap<Arc<str>, ProviderSpec>,
    ) {
        let is_for_all = self.bundle.orchestrator.value.budget.cost.is_some();
        let is_priced = |spec: &&AgentSpec| {
            let has_cost = |it: &&Batch| it.budget.cost.is_some();
            let mut batches = batches.iter().filter(has_cost);
            is_for_all || batches.any(|it| it.allowed.iter().any(|name| **name == *spec.name))
        };
        let faults = unpriced(agents.values().filter(is_priced), providers);
        faults.into_iter().for_each(|it| self.push(it));
    }
}
