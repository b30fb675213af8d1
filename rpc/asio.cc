// Compiles Asio's non-template code once (BOOST_ASIO_SEPARATE_COMPILATION).

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
