// The parts of Asio and Beast that need not be in every file.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
