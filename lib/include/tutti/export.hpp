#pragma once

/// Marks what libtutti exports; all else in it is hidden. test/install/exported_symbols.txt lists
/// the symbols.
#define TUTTI_EXPORT [[gnu::visibility("default")]]
/// Keeps a nested class of an exported one private to the library.
#define TUTTI_HIDDEN [[gnu::visibility("hidden")]]
