use expect_test::{Expect, expect};

use super::*;

mod batch;
mod properties;

fn owned(text: &str) -> OwnedPath {
    OwnedPath::parse(text).unwrap_or_else(|fault| panic!("`{text}`: {fault}"))
}

fn file(text: &str) -> FilePath {
    FilePath::parse(text).unwrap_or_else(|fault| panic!("`{text}`: {fault}"))
}

fn files(texts: &str) -> Vec<FilePath> {
    texts.split_whitespace().map(file).collect()
}

fn claims(tasks: &[Vec<OwnedPath>]) -> Claims {
    Claims::new(tasks.iter().map(Vec::as_slice).enumerate())
}

/// Draws what each line is as a file and, where that differs, as an owned path.
#[track_caller]
fn check_parse(lines: &str, expect: Expect) {
    let mut drawn = String::new();
    for text in lines.lines().map(str::trim_start) {
        let file = FilePath::parse(text).map_or_else(|it| it.to_string(), |it| format!("`{it}`"));
        let owned = OwnedPath::parse(text).map_or_else(|it| it.to_string(), |it| format!("`{it}`"));
        drawn += &match file == owned {
            true => format!("{text:?} {file}\n"),
            false => format!("{text:?} {file}; {owned}\n"),
        };
    }
    expect.assert_eq(&drawn);
}

#[test]
fn paths_are_normalised() {
    check_parse(
        r"src/monkey.py
          ./ a//b/./c
          .\a\b
          a/
          a/.
          ./
          .
          ...
          ~/.ssh/key
          .git/config
          .env
          a b/c
          src/*.rs
          src/*/
          src\**\?.rs
          routes/{id}.ts
          app/[id]/page.tsx
          {a,b}/c",
        expect![[r#"
            "src/monkey.py" `src/monkey.py`
            "./ a//b/./c" `a/b/c`
            ".\\a\\b" `a/b`
            "a/" it names a folder, not a file; `a/`
            "a/." it names a folder, not a file; `a/`
            "./" it names a folder, not a file; `./`
            "." it names a folder, not a file; `./`
            "..." `...`
            "~/.ssh/key" `~/.ssh/key`
            ".git/config" it has a part `.git`, from where git runs programs
            ".env" `.env`
            "a b/c" `a b/c`
            "src/*.rs" `src/*.rs`
            "src/*/" it names a folder, not a file; `src/*/**`
            "src\\**\\?.rs" `src/**/?.rs`
            "routes/{id}.ts" `routes/{id}.ts`
            "app/[id]/page.tsx" `app/[id]/page.tsx`
            "{a,b}/c" `{a,b}/c`
        "#]],
    );
    assert_eq!(file(" a/b\n").as_str(), "a/b");
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    let texts = r"
          /etc
          \etc
          \\server\share
          //server
          C:/x
          c:x
          C:\x
          ./C:/x
          ..
          ../x
          a/../b
          a/ .. /b
          a\..
          src/../*.rs
          {../a,b}
          {/etc,b}
          {c:,b}/x
          {,a}
          .git
          a/.GIT/hooks/pre-commit
          .{git,a}/config
          .gitignore
          a.git/x";
    check_parse(
        texts,
        expect![[r#"
            "" it is blank
            "/etc" it is absolute
            "\\etc" it is absolute
            "\\\\server\\share" it is absolute
            "//server" it is absolute
            "C:/x" it starts with the letter of a drive
            "c:x" it starts with the letter of a drive
            "C:\\x" it starts with the letter of a drive
            "./C:/x" it starts with the letter of a drive
            ".." it has a part `..`
            "../x" it has a part `..`
            "a/../b" it has a part `..`
            "a/ .. /b" it has a part `..`
            "a\\.." it has a part `..`
            "src/../*.rs" it has a part `..`
            "{../a,b}" `{../a,b}`; it has a part `..`
            "{/etc,b}" `{/etc,b}`; it is absolute
            "{c:,b}/x" `{c:,b}/x`; it starts with the letter of a drive
            "{,a}" `{,a}`; it is blank
            ".git" it has a part `.git`, from where git runs programs
            "a/.GIT/hooks/pre-commit" it has a part `.git`, from where git runs programs
            ".{git,a}/config" `.{git,a}/config`; it has a part `.git`, from where git runs programs
            ".gitignore" `.gitignore`
            "a.git/x" `a.git/x`
        "#]],
    );
    let faults =
        ["a\0", "a\nb", "a/\u{7f}"].map(|it| FilePath::parse(it).expect_err(it).to_string());
    expect![[r#"
        it has the control character `\0`
        it has the control character `\n`
        it has the control character `\u{7f}`"#]]
    .assert_eq(&faults.join("\n"));
}

#[test]
fn paths_are_bounded() {
    let names = [
        "x".repeat(255),
        "x".repeat(256),
        "x/".repeat(511) + "xx",
        "x/".repeat(512) + "x",
    ];
    let faults = names.map(|it| {
        FilePath::parse(&it)
            .err()
            .map(|it| it.to_string())
            .unwrap_or_default()
    });
    expect![[r#"

        it has a name of 256 bytes; 255 are allowed

        it is 1025 bytes long; 1024 are allowed"#]]
    .assert_eq(&faults.join("\n"));

    assert!(OwnedPath::parse(&"{a,b}".repeat(6)).is_ok());
    assert_eq!(
        OwnedPath::parse(&"{a,b}".repeat(7)),
        Err(PathFault::Alternatives)
    );
    let [long, longer] = ["a", "b"].map(|it| owned(&("*x".repeat(510) + "***" + it)));
    assert!(overlaps(&long, &longer), "too long to be told apart");
    assert!(OwnedPath::parse(&"{a,".repeat(80)).is_ok_and(|it| it.as_file().is_some()));
}

/// Each owned path, the files that it covers and, after a `|`, some that it does not.
#[track_caller]
fn check_covers(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let (path, paths) = line.split_once(' ').expect("an owned path and files");
        let (inside, outside) = paths.split_once('|').expect("files, `|`, files");
        let path = owned(path);
        inside
            .split_whitespace()
            .for_each(|it| assert!(path.covers(&file(it)), "{path} {it}"));
        outside
            .split_whitespace()
            .for_each(|it| assert!(!path.covers(&file(it)), "{path} {it}"));
    }
}

#[test]
fn owned_paths_cover_files() {
    check_covers(
        "src/a.rs        src/a.rs ./src//a.rs  | src/A.rs src/a.rs/x a.rs
         src/            src/a src/a/b         | src SRC/a srcs/a
         ./              a a/b                 |
         src             src                   | src/a
         *.rs            a.rs .rs              | a/b.rs a.RS
         src/*           src/a                 | src src/a/b
         src/*/          src/a/b src/a/b/c     | src/a
         src/**          src/a src/a/b         | src a/src/b
         **              a a/b                 |
         **/*.rs         a.rs a/b/c.rs         | a/b.rs/c
         src/**/x.rs     src/x.rs src/a/b/x.rs | src/ax.rs x.rs
         a/**/b/**/c     a/b/c a/x/b/y/z/c     | a/c a/b/xc
         a**b            ab axb                | a/b
         ?.rs            a.rs ä.rs             | .rs ab.rs
         [a-c]x[!0-9]    ax_ cxä               | dx_ ax1 ax
         [ä-ü]           ö                     | o
         []-]            ] -                   | a
         {a,b/c}/*.{rs,toml}   a/x.rs b/c/x.toml | c/x.rs a/x.md
         {a,b{c,d}}x{,y} ax bcxy bdx           | bx a
         src/{a/,b}      src/a/x src/b         | src/a src/b/x
         routes/{id}.ts  routes/{id}.ts        | routes/id.ts
         [{]a,b}         {a,b}                 | a
         app/[id]/p.tsx  app/[id]/p.tsx app/i/p.tsx | app/id/p.tsx
         app/[x-a]/p.tsx app/[x-a]/p.tsx       | app/x/p.tsx",
    );
    assert_eq!(
        owned("app/[x-a]/{id}.ts").as_file(),
        Some(&file("app/[x-a]/{id}.ts"))
    );
    assert_eq!(
        ["a*", "a/", "[a]", "{a,b}"].map(|it| owned(it).as_file().is_some()),
        [false; 4]
    );
}

/// Pairs of owned paths that do or do not overlap.
#[track_caller]
fn check_overlaps(expected: &str, lines: &str) {
    for line in lines.lines() {
        let pair: Vec<OwnedPath> = line.split_whitespace().map(owned).collect();
        let actual = match overlaps(&pair[0], &pair[1]) {
            true => "overlap",
            false => "are apart",
        };
        assert_eq!(actual, expected, "{line}");
    }
}

#[test]
fn owned_paths_overlap() {
    check_overlaps(
        "overlap",
        "a         a
         a         A
         src       src/x
         src/      src/x/y
         src/      SRC/x/
         src       src/
         ./        a
         ./        a/*.rs
         Ä.rs      ä.rs
         src       src/*.rs
         src/      src/*.rs
         src/*.rs  src/a.RS
         src/a/    src/**/x.rs
         *.rs      a*
         a*c       a?c
         *a*       *b*
         src/**    src/a/**/x.rs
         **/a      a/**
         **/x.rs   src/*.rs
         a/**/z    a/b/*/z
         [a-c]     [c-e]
         [A-C]     b
         [!a]      [!b]
         [ä]       [ö]
         K         k
         [k]       K
         {a,b}/x   {b,c}/x
         a/[id]/x  a/i/x
         a/[id]/x  a/[id]/x",
    );
    check_overlaps(
        "are apart",
        "a         b
         src/x     srcx
         src/      src.rs
         src/a     src/b
         a/b       a.b
         *.rs      *.md
         a*        b*
         src/*     src/a/b
         src/*/x   src/x
         src/**/x  lib/**/x
         a/**/x    a/**/y
         ?         ab
         [ab]      [c-e]
         [ab]      c
         {a,b}/x   {c,d}/x
         a/*/x     a/b/y",
    );
}
